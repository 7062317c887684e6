//! The questions.

mod containers;
mod events;
mod exec;
mod isolation;
mod lists;
mod logs;
mod pods;
mod volumes;

use std::future::Future;
use std::pin::Pin;

use crate::cri::Cri;

type Case = fn(Cri) -> Pin<Box<dyn Future<Output = ()> + Send>>;

/// Names a case by its function.
macro_rules! cases {
    ($($module:ident :: $name:ident),* $(,)?) => {
        vec![$((stringify!($name), (|cri| Box::pin($module::$name(cri))) as Case)),*]
    };
}

pub(crate) fn all() -> Vec<(&'static str, Case)> {
    cases![
        pods::a_pod_lives_and_goes,
        pods::stopping_what_is_not_there_is_fine,
        pods::a_pod_cannot_be_made_twice,
        pods::removing_a_pod_takes_its_containers_along,
        pods::the_runtime_says_who_it_is_and_that_it_is_ready,
        pods::the_runtime_config_names_the_cgroup_driver,
        pods::the_image_is_known_and_another_is_not,
        pods::a_container_made_by_an_images_id_says_its_name,
        containers::a_container_lives_and_goes,
        containers::a_container_cannot_be_made_twice,
        containers::a_container_starts_once,
        containers::exit_codes_and_reasons,
        containers::stop_asks_first_and_kills_later,
        containers::stop_without_grace_kills,
        containers::stop_ends_the_whole_tree,
        containers::a_start_that_fails_is_an_exit_with_a_reason,
        containers::out_of_memory_is_told,
        containers::limits_can_be_changed,
        containers::numbers_are_counted,
        lists::filters_select,
        lists::streaming_lists_equal_the_plain_ones,
        logs::lines_have_time_stream_and_tag,
        logs::long_lines_are_cut,
        logs::a_rotated_log_is_reopened,
        exec::a_command_returns_output_and_code,
        exec::a_command_that_takes_too_long_is_ended,
        exec::a_command_needs_a_running_container,
        exec::a_command_that_is_not_there_is_an_error,
        isolation::environment_folder_and_user,
        isolation::the_umask_is_the_usual_one,
        isolation::streams_can_be_opened_by_their_names,
        isolation::control_groups_are_read_only,
        isolation::a_missing_folder_to_work_in_is_made,
        isolation::the_machines_devices_are_out_of_reach,
        isolation::a_read_only_root_is_read_only,
        isolation::hidden_and_read_only_paths_are_so,
        isolation::a_pod_can_use_the_nodes_ipc,
        isolation::capabilities_are_what_was_asked,
        isolation::signals_are_as_a_program_expects,
        isolation::each_container_has_its_own_processes,
        isolation::a_pod_can_share_its_processes,
        isolation::a_privileged_container_has_every_right,
        volumes::volumes_are_mounted,
        volumes::a_volume_can_be_more_than_a_folder,
        volumes::a_volume_hides_no_file_of_the_pod,
        volumes::the_volumes_of_an_image_are_folders_of_the_containers_own,
        volumes::mounts_are_seen_on_both_sides_only_where_that_was_asked,
        volumes::a_recursively_read_only_volume_stays_so,
        events::events_tell_the_whole_life,
        events::events_go_to_every_subscriber,
        events::events_tell_of_a_failed_start,
        events::a_deleted_sandbox_is_not_listed_any_more,
    ]
}

/// What a failed case said.
pub(crate) fn message(panic: tokio::task::JoinError) -> String {
    match panic.try_into_panic() {
        Ok(payload) => match payload.downcast::<String>() {
            Ok(text) => *text,
            Err(payload) => {
                payload.downcast_ref::<&str>().map_or_else(|| "panicked".to_owned(), ToString::to_string)
            }
        },
        Err(error) => error.to_string(),
    }
}
