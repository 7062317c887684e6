//! `cargo xtask bench runtime`: the embedded runtime compared with containerd, in one run, and its cost when idle.

mod pods;

use std::time::Duration;

use anyhow::Context;
use rubelet_testbed::Embedded;

use self::pods::Steps;
use super::RuntimeArgs;
use super::process::{rss_kib, usage};
use super::subject::{self, Subject};
use super::verdict::{Verdict, conclude};

/// The number of pods before the first that counts: caches fill, and containerd loads what it needs.
const WARM_UP: usize = 3;

pub(super) fn run(args: &RuntimeArgs) -> anyhow::Result<()> {
    println!(
        "A pod on the host's network with one container of a busybox image: RunPodSandbox, CreateContainer,\n\
         StartContainer, one after the other, and the moment when the container's program writes to a pipe.\n\
         {} pods each, in turn, removed between rounds. Milliseconds since the first request, median (p99).\n",
        args.rounds
    );
    let rubelet = subject::build_rubelet()?;
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    let embedded = subject::embedded(&rubelet)?;
    let ours = Subject::new("embedded", &embedded.socket(), embedded.dir())?;
    let mut verdicts = runtime.block_on(start_up(args, &ours))?;
    verdicts.extend(runtime.block_on(at_rest(args, &embedded, &ours))?);
    conclude(&verdicts, args.check)
}

async fn start_up(args: &RuntimeArgs, ours: &Subject) -> anyhow::Result<Vec<Verdict>> {
    let containerd = subject::containerd()?;
    let place = tempfile::tempdir()?;
    let theirs = Subject::new(&containerd.flavor().to_string(), &containerd.socket(), place.path())?;
    let mut steps = [Vec::new(), Vec::new()];
    for round in 0..WARM_UP + args.rounds {
        // They alternate, so that neither always benefits from what the other has warmed up.
        let order = if round % 2 == 0 { [0, 1] } else { [1, 0] };
        for which in order {
            let subject = [ours, &theirs][which];
            let measured = pods::run(subject, round).await.with_context(|| subject.name.clone())?;
            pods::clear(subject).await.with_context(|| subject.name.clone())?;
            if round >= WARM_UP {
                steps[which].push(measured);
            }
        }
    }
    println!("{:14} {:>16} {:>16} {:>16} {:>18}", "", "sandbox", "created", "started", "first instruction");
    for (subject, steps) in [ours, &theirs].iter().zip(&steps) {
        let cell = |step: fn(&Steps) -> Duration| {
            format!("{:.1} ({:.1})", quantile(steps, step, 0.5), quantile(steps, step, 0.99))
        };
        println!(
            "{:14} {:>16} {:>16} {:>16} {:>18}",
            subject.name,
            cell(|steps| steps.sandbox),
            cell(|steps| steps.created),
            cell(|steps| steps.started),
            cell(|steps| steps.first_instruction)
        );
    }
    let [ours_ms, theirs_ms] = steps.map(|steps| quantile(&steps, |steps| steps.first_instruction, 0.5));
    Ok(vec![
        Verdict::at_most("first instruction in ms, median", ours_ms, 60.0),
        Verdict::at_most(&format!("first instruction / that of {}", theirs.name), ours_ms / theirs_ms, 0.5),
    ])
}

async fn at_rest(args: &RuntimeArgs, embedded: &Embedded, ours: &Subject) -> anyhow::Result<Vec<Verdict>> {
    for number in 0..args.pods {
        pods::run(ours, WARM_UP + args.rounds + number).await?;
    }
    let runtime = embedded.pid().context("the runtime ended")?;
    let shims = embedded.shims().iter().map(|pid| pid.parse()).collect::<Result<Vec<u32>, _>>()?;
    anyhow::ensure!(shims.len() == args.pods, "{} pods have {} shims", args.pods, shims.len());
    let all_shims = || shims.iter().map(|pid| usage(*pid)).collect::<anyhow::Result<Vec<_>>>();
    let before = (usage(runtime)?, all_shims()?);
    let window = Duration::from_secs(args.idle_seconds);
    tokio::time::sleep(window).await;
    let after = (usage(runtime)?, all_shims()?);
    let of_runtime = after.0.since(&before.0).percent(window);
    let of_shims: f64 =
        before.1.iter().zip(&after.1).map(|(before, after)| after.since(before).percent(window)).sum();
    let mut rss: Vec<u64> = shims.iter().map(|pid| rss_kib(*pid)).collect::<Result<_, _>>()?;
    rss.sort_unstable();
    let (median, most) = (rss[rss.len() / 2] as f64 / 1024.0, rss[rss.len() - 1] as f64 / 1024.0);
    println!(
        "\n{} idle pods, {} s: runtime {:.1} MiB RSS, {of_runtime:.4} % of a core; all shims {of_shims:.4} % of a core; a shim {median:.2} MiB RSS, at most {most:.2}",
        args.pods,
        args.idle_seconds,
        rss_kib(runtime)? as f64 / 1024.0,
    );
    pods::clear(ours).await?;
    Ok(vec![
        Verdict::at_most("RSS of a shim in MiB, the largest", most, 3.0),
        Verdict::at_most("CPU of all idle shims in % of a core", of_shims, 0.0),
        Verdict::at_most("CPU of the idle runtime in % of a core", of_runtime, 0.01),
    ])
}

fn quantile(steps: &[Steps], step: fn(&Steps) -> Duration, share: f64) -> f64 {
    super::sample::quantile(steps.iter().map(step), share).as_secs_f64() * 1e3
}
