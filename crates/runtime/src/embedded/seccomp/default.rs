//! `RuntimeDefault`: the system calls that containers may make unless they ask for something else.
//!
//! It allows the same calls as containerd and docker, so that what runs there runs here. It leaves out those that reach
//! beyond a container (mounts, namespaces, modules, clocks, the kernel's keys, `io_uring`, BPF, …); calls that are
//! harmless with a capability are allowed to containers that have it.

use super::policy::{Action, Circumstances, Condition, ENOSYS, EPERM, Policy, Rule, Test};

/// Returns the policy for a container with these capabilities.
pub(super) fn policy(circumstances: &Circumstances<'_>) -> Policy {
    let has = |name: &str| circumstances.capabilities.contains(name);
    let mut rules = vec![allow(ALWAYS)];
    for (capability, names) in WITH {
        if has(capability) {
            rules.push(allow(names));
        }
    }
    if !has("SYS_ADMIN") {
        // Threads and processes, but no namespaces. The arguments of `clone3` are in memory, where no filter can look;
        // a C library that gets "not implemented" uses `clone`.
        rules.push(when("clone", 0, Test::Masked { mask: NAMESPACES, value: 0 }, Action::Allow));
        rules.push(when_always("clone3", Action::Errno(ENOSYS)));
    }
    for family in [AF_ALG, AF_VSOCK] {
        // The kernel looks at only 32 bits of it, and so must we.
        let test = Test::Masked { mask: 0xffff_ffff, value: family };
        rules.push(when("socket", 0, test, Action::Errno(EPERM)));
    }
    rules.push(when_always("socket", Action::Allow));
    for kind in PERSONALITIES {
        rules.push(when("personality", 0, Test::Masked { mask: 0xffff_ffff, value: kind }, Action::Allow));
    }
    Policy { architectures: circumstances.host.family(), rules, default: Action::Errno(EPERM), flags: 0 }
}

fn allow(names: &str) -> Rule {
    let names = names.split_whitespace().map(str::to_owned).collect();
    Rule { names, conditions: Vec::new(), action: Action::Allow }
}

fn when(name: &str, argument: u8, test: Test, action: Action) -> Rule {
    Rule { names: vec![name.to_owned()], conditions: vec![Condition { argument, test }], action }
}

fn when_always(name: &str, action: Action) -> Rule {
    Rule { names: vec![name.to_owned()], conditions: Vec::new(), action }
}

/// `CLONE_NEWNS | NEWCGROUP | NEWUTS | NEWIPC | NEWUSER | NEWPID | NEWNET`.
const NAMESPACES: u64 = 0x7e02_0000;
/// The kernel's ciphers as sockets: a large part of the kernel that hardly anybody uses.
const AF_ALG: u64 = 38;
/// Sockets to the host of a virtual machine, whatever the pod's network is.
const AF_VSOCK: u64 = 40;
/// Linux, with and without 32-bit addresses, and the query for the current one.
const PERSONALITIES: [u64; 5] = [0, 0x0008, 0x0002_0000, 0x0002_0008, 0xffff_ffff];

/// The calls that a capability adds.
const WITH: &[(&str, &str)] = &[
    ("BPF", "bpf"),
    ("DAC_READ_SEARCH", "open_by_handle_at"),
    ("PERFMON", "perf_event_open"),
    (
        "SYS_ADMIN",
        "bpf clone clone3 fanotify_init fsconfig fsmount fsopen fspick lookup_dcookie mount mount_setattr move_mount \
         open_tree perf_event_open quotactl quotactl_fd setdomainname sethostname setns syslog umount umount2 unshare",
    ),
    ("SYS_BOOT", "reboot"),
    ("SYS_CHROOT", "chroot"),
    ("SYS_MODULE", "delete_module finit_module init_module"),
    ("SYS_NICE", "get_mempolicy mbind set_mempolicy set_mempolicy_home_node"),
    ("SYS_PACCT", "acct"),
    ("SYS_PTRACE", "kcmp pidfd_getfd process_madvise"),
    ("SYS_RAWIO", "ioperm iopl"),
    ("SYS_TIME", "clock_settime clock_settime64 settimeofday stime"),
    ("SYS_TTY_CONFIG", "vhangup"),
    ("SYSLOG", "syslog"),
];

/// The calls that every container may make. Names that an architecture does not have are ignored there.
pub(super) const ALWAYS: &str = "
    accept accept4 access adjtimex alarm arch_prctl arm_fadvise64_64 arm_sync_file_range bind breakpoint brk
    cacheflush cachestat capget capset chdir chmod chown chown32 clock_adjtime clock_adjtime64 clock_getres
    clock_getres_time64 clock_gettime clock_gettime64 clock_nanosleep clock_nanosleep_time64 close close_range
    connect copy_file_range creat dup dup2 dup3 epoll_create epoll_create1 epoll_ctl epoll_ctl_old epoll_pwait
    epoll_pwait2 epoll_wait epoll_wait_old eventfd eventfd2 execve execveat exit exit_group faccessat faccessat2
    fadvise64 fadvise64_64 fallocate fanotify_mark fchdir fchmod fchmodat fchmodat2 fchown fchown32 fchownat
    fcntl fcntl64 fdatasync fgetxattr flistxattr flock fork fremovexattr fsetxattr fstat fstat64 fstatat64
    fstatfs fstatfs64 fsync ftruncate ftruncate64 futex futex_requeue futex_time64 futex_wait futex_waitv
    futex_wake futimesat get_robust_list get_thread_area getcpu getcwd getdents getdents64 getegid getegid32
    geteuid geteuid32 getgid getgid32 getgroups getgroups32 getitimer getpeername getpgid getpgrp getpid getppid
    getpriority getrandom getresgid getresgid32 getresuid getresuid32 getrlimit getrusage getsid getsockname
    getsockopt gettid gettimeofday getuid getuid32 getxattr getxattrat inotify_add_watch inotify_init
    inotify_init1 inotify_rm_watch io_cancel io_destroy io_getevents io_pgetevents io_pgetevents_time64 io_setup
    io_submit ioctl ioprio_get ioprio_set ipc kill landlock_add_rule landlock_create_ruleset
    landlock_restrict_self lchown lchown32 lgetxattr link linkat listen listmount listxattr listxattrat
    llistxattr _llseek lremovexattr lseek lsetxattr lsm_get_self_attr lsm_list_modules lsm_set_self_attr lstat
    lstat64 madvise map_shadow_stack membarrier memfd_create memfd_secret mincore mkdir mkdirat mknod mknodat
    mlock mlock2 mlockall mmap mmap2 modify_ldt mprotect mq_getsetattr mq_notify mq_open mq_timedreceive
    mq_timedreceive_time64 mq_timedsend mq_timedsend_time64 mq_unlink mremap mseal msgctl msgget msgrcv msgsnd
    msync munlock munlockall munmap name_to_handle_at nanosleep newfstatat _newselect open openat openat2 pause
    pidfd_open pidfd_send_signal pipe pipe2 pkey_alloc pkey_free pkey_mprotect poll ppoll ppoll_time64 prctl
    pread64 preadv preadv2 prlimit64 process_mrelease process_vm_readv process_vm_writev pselect6
    pselect6_time64 ptrace pwrite64 pwritev pwritev2 read readahead readlink readlinkat readv recv recvfrom
    recvmmsg recvmmsg_time64 recvmsg remap_file_pages removexattr removexattrat rename renameat renameat2
    restart_syscall rmdir rseq rt_sigaction rt_sigpending rt_sigprocmask rt_sigqueueinfo rt_sigreturn
    rt_sigsuspend rt_sigtimedwait rt_sigtimedwait_time64 rt_tgsigqueueinfo sched_get_priority_max
    sched_get_priority_min sched_getaffinity sched_getattr sched_getparam sched_getscheduler
    sched_rr_get_interval sched_rr_get_interval_time64 sched_setaffinity sched_setattr sched_setparam
    sched_setscheduler sched_yield seccomp select semctl semget semop semtimedop semtimedop_time64 send sendfile
    sendfile64 sendmmsg sendmsg sendto set_robust_list set_thread_area set_tid_address set_tls setfsgid
    setfsgid32 setfsuid setfsuid32 setgid setgid32 setgroups setgroups32 setitimer setpgid setpriority setregid
    setregid32 setresgid setresgid32 setresuid setresuid32 setreuid setreuid32 setrlimit setsid setsockopt
    setuid setuid32 setxattr setxattrat shmat shmctl shmdt shmget shutdown sigaltstack signalfd signalfd4
    sigprocmask sigreturn socketcall socketpair splice stat stat64 statfs statfs64 statmount statx symlink
    symlinkat sync sync_file_range sync_file_range2 syncfs sysinfo tee tgkill time timer_create timer_delete
    timer_getoverrun timer_gettime timer_gettime64 timer_settime timer_settime64 timerfd_create timerfd_gettime
    timerfd_gettime64 timerfd_settime timerfd_settime64 times tkill truncate truncate64 ugetrlimit umask uname
    unlink unlinkat uretprobe utime utimensat utimensat_time64 utimes vfork vmsplice wait4 waitid waitpid write
    writev
";
