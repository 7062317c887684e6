//! The part of a configuration file about logs and images: how much of them is kept.

use std::time::Duration;

use rubelet_agent::gc::{ImagePolicy, LogPolicy};
use rubelet_agent::resource::Quantity;

use super::{ConfigError, Fields, wrong};

/// How much of logs and images to keep.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Upkeep {
    pub(crate) images: ImagePolicy,
    pub(crate) logs: LogPolicy,
}

impl Upkeep {
    pub(super) fn take(fields: &mut Fields) -> Result<Self, ConfigError> {
        Ok(Self { images: images(fields)?, logs: logs(fields)? })
    }
}

fn images(fields: &mut Fields) -> Result<ImagePolicy, ConfigError> {
    const HIGH: &str = "imageGCHighThresholdPercent";
    const LOW: &str = "imageGCLowThresholdPercent";
    let usual = ImagePolicy::default();
    let min_age: Option<Duration> = fields.duration("imageMinimumGCAge")?;
    let policy = ImagePolicy {
        high: fields.take(HIGH)?.unwrap_or(usual.high),
        low: fields.take(LOW)?.unwrap_or(usual.low),
        min_age: min_age.unwrap_or(usual.min_age),
    };
    if policy.high > 100 {
        return Err(wrong(HIGH, &"must be from 0 to 100"));
    }
    if policy.low >= policy.high {
        let why = format!("is {}, must be below {HIGH}, which is {}", policy.low, policy.high);
        return Err(wrong(LOW, &why));
    }
    Ok(policy)
}

fn logs(fields: &mut Fields) -> Result<LogPolicy, ConfigError> {
    const SIZE: &str = "containerLogMaxSize";
    const FILES: &str = "containerLogMaxFiles";
    let usual = LogPolicy::default();
    let max_size = match fields.amount::<String>(SIZE)? {
        None => usual.max_size,
        Some(text) => {
            let size: Quantity = text.parse().map_err(|error| wrong(SIZE, &error))?;
            match size.units() {
                0 => return Err(wrong(SIZE, &"must not be zero; a negative size turns log rotation off")),
                // A negative size means no limit.
                bytes => u64::try_from(bytes).unwrap_or(u64::MAX),
            }
        }
    };
    let max_files = fields.take(FILES)?.unwrap_or(usual.max_files);
    if max_files < 2 {
        return Err(wrong(FILES, &"must be at least 2"));
    }
    Ok(LogPolicy { max_size, max_files })
}
