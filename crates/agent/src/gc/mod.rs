//! Garbage collection: keeps growing things within bounds, logs by size and images by the space on their disk. (Dead
//! containers and sandboxes, and the folders of pods, are removed by the actor of their pod.)

mod disk;
mod image_plan;
mod images;
mod log_files;
mod log_links;
mod log_plan;
mod logs;
#[cfg(test)]
mod testkit;

pub use image_plan::ImagePolicy;
pub use images::ImageCollector;
pub use log_links::{LogLinks, remove_dead_links};
pub use log_plan::LogPolicy;
pub use logs::LogRotation;
