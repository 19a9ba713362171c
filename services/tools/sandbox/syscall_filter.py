"""The filter of system calls that a program runs under, as the kernel reads it (classic BPF).

What is not needed for computing is refused with EPERM: looking into other processes, mounts,
namespaces, kernel modules, keys, and what lets memory be held that no limit counts. Calls newer
than this list do not exist (ENOSYS): a kernel that learns new ones opens nothing.
"""

from __future__ import annotations

import struct

# By name: the number on x86-64 and on arm64; None where the machine has no such call.
REFUSED: dict[str, tuple[int | None, int | None]] = {
    # Other processes.
    "ptrace": (101, 117),
    "process_vm_readv": (310, 270),
    "process_vm_writev": (311, 271),
    "process_madvise": (440, 440),
    "kcmp": (312, 272),
    "pidfd_getfd": (438, 438),
    "perf_event_open": (298, 241),
    # Mounts and namespaces.
    "mount": (165, 40),
    "umount2": (166, 39),
    "pivot_root": (155, 41),
    "chroot": (161, 51),
    "unshare": (272, 97),
    "setns": (308, 268),
    "open_tree": (428, 428),
    "move_mount": (429, 429),
    "fsopen": (430, 430),
    "fsconfig": (431, 431),
    "fsmount": (432, 432),
    "fspick": (433, 433),
    "mount_setattr": (442, 442),
    "statmount": (457, 457),
    "listmount": (458, 458),
    "name_to_handle_at": (303, 264),
    "open_by_handle_at": (304, 265),
    "quotactl": (179, 60),
    "quotactl_fd": (443, 443),
    "fanotify_init": (300, 262),
    "fanotify_mark": (301, 263),
    # The kernel itself.
    "bpf": (321, 280),
    "userfaultfd": (323, 282),
    "seccomp": (317, 277),
    "io_uring_setup": (425, 425),
    "io_uring_enter": (426, 426),
    "io_uring_register": (427, 427),
    "io_setup": (206, 0),
    "io_submit": (209, 2),
    "kexec_load": (246, 104),
    "kexec_file_load": (320, 294),
    "init_module": (175, 105),
    "finit_module": (313, 273),
    "delete_module": (176, 106),
    "create_module": (174, None),
    "query_module": (178, None),
    "get_kernel_syms": (177, None),
    "syslog": (103, 116),
    "lookup_dcookie": (212, 18),
    "acct": (163, 89),
    "reboot": (169, 142),
    "swapon": (167, 224),
    "swapoff": (168, 225),
    "sethostname": (170, 161),
    "setdomainname": (171, 162),
    "settimeofday": (164, 170),
    "clock_settime": (227, 112),
    "clock_adjtime": (305, 266),
    "adjtimex": (159, 171),
    "vhangup": (153, 58),
    "personality": (135, 92),
    "iopl": (172, None),
    "ioperm": (173, None),
    "modify_ldt": (154, None),
    "uselib": (134, None),
    "ustat": (136, None),
    "sysfs": (139, None),
    "_sysctl": (156, None),
    "nfsservctl": (180, 42),
    "vmsplice": (278, 75),
    "mbind": (237, 235),
    "set_mempolicy": (238, 237),
    "get_mempolicy": (239, 236),
    "migrate_pages": (256, 238),
    "move_pages": (279, 239),
    "set_mempolicy_home_node": (450, 450),
    # Keys.
    "add_key": (248, 217),
    "request_key": (249, 218),
    "keyctl": (250, 219),
    # Memory that belongs to no process, so that no limit counts it.
    "memfd_create": (319, 279),
    "memfd_secret": (447, 447),
    "shmget": (29, 194),
    "shmat": (30, 196),
    "shmctl": (31, 195),
    "semget": (64, 190),
    "semop": (65, 193),
    "semtimedop": (220, 192),
    "semctl": (66, 191),
    "msgget": (68, 186),
    "msgsnd": (69, 189),
    "msgrcv": (70, 188),
    "msgctl": (71, 187),
    "mq_open": (240, 180),
}
MACHINES = {"x86_64": 0, "aarch64": 1}
AUDIT_ARCHITECTURE = (0xC000003E, 0xC00000B7)
CLONE, SOCKET, SETSOCKOPT, IOCTL = (56, 220), (41, 198), (54, 208), (16, 29)
CLONE3 = 435  # its flags lie in memory, where no filter sees them: the C library then uses clone
NEWEST_CALL = 462  # mseal, of Linux 6.10
X32_CALLS = 0x40000000
NEW_NAMESPACES = 0x7E020000  # CLONE_NEWNS, CGROUP, UTS, IPC, USER, PID, NET
UNIX, INTERNET = (1,), (2, 10)  # and no vsock, netlink, packet, alg ...
PROTOCOLS = (0, 1, 6, 17)  # TCP and UDP, and unix sockets: not MPTCP, SCTP, DCCP ...
# What makes buffers larger (SO_SNDBUF, SO_RCVBUF, and both with FORCE) is a hint, and not heard:
# the kernel's own size is what the memory of sockets is bounded by.
SOL_SOCKET, BUFFER_SIZES = 1, (7, 8, 32, 33)
TERMINAL_INPUT = (0x5412, 0x541C)  # TIOCSTI and TIOCLINUX: to type for somebody else

NO_ERROR, EPERM, ENOSYS = 0, 1, 38
ALLOW, ERRNO, KILL = 0x7FFF0000, 0x00050000, 0x80000000
LOAD, RETURN = 0x20, 0x06
IF_EQUAL, IF_AT_LEAST, IF_ANY_BIT = 0x15, 0x35, 0x45
NUMBER, ARCHITECTURE, FIRST_ARGUMENT, SECOND_ARGUMENT, THIRD_ARGUMENT = 0, 4, 16, 24, 32


def instruction(code: int, value: int, jump_true: int = 0, jump_false: int = 0) -> bytes:
    """Pack one `struct sock_filter` of the kernel."""
    return struct.pack("HBBI", code, jump_true, jump_false, value)


def syscall_filter(machine: str, *, internet: bool = True) -> bytes:
    """The program for a machine as `os.uname` names it; KeyError for one that is not known. Without
    `internet` there are only unix sockets."""
    which = MACHINES[machine]
    lines = [
        instruction(LOAD, ARCHITECTURE),
        instruction(IF_EQUAL, AUDIT_ARCHITECTURE[which], 1, 0),
        instruction(RETURN, KILL),
        instruction(LOAD, NUMBER),
    ]
    if which == 0:
        lines += [instruction(IF_AT_LEAST, X32_CALLS, 0, 1), instruction(RETURN, KILL)]
    lines += refused_if(IF_EQUAL, CLONE3, ENOSYS)
    lines += refused_if(IF_AT_LEAST, NEWEST_CALL + 1, ENOSYS)
    for numbers in REFUSED.values():
        number = numbers[which]
        if number is not None:
            lines += refused_if(IF_EQUAL, number, EPERM)
    lines += with_argument(
        CLONE[which], FIRST_ARGUMENT, refused_if(IF_ANY_BIT, NEW_NAMESPACES, EPERM)
    )
    families = UNIX + INTERNET if internet else UNIX
    lines += with_argument(SOCKET[which], FIRST_ARGUMENT, only(families))
    lines += with_argument(SOCKET[which], THIRD_ARGUMENT, only(PROTOCOLS))
    sizes = [line for size in BUFFER_SIZES for line in refused_if(IF_EQUAL, size, NO_ERROR)]
    of_sockets = [
        instruction(IF_EQUAL, SOL_SOCKET, 0, len(sizes) + 1),
        instruction(LOAD, THIRD_ARGUMENT),
        *sizes,
    ]
    lines += with_argument(SETSOCKOPT[which], SECOND_ARGUMENT, of_sockets)
    typing = [line for call in TERMINAL_INPUT for line in refused_if(IF_EQUAL, call, EPERM)]
    lines += with_argument(IOCTL[which], SECOND_ARGUMENT, typing)
    return b"".join([*lines, instruction(RETURN, ALLOW)])


def refused_if(test: int, value: int, error: int) -> list[bytes]:
    """Refuse where the test of what was loaded last holds."""
    return [instruction(test, value, 0, 1), instruction(RETURN, ERRNO | error)]


def only(values: tuple[int, ...]) -> list[bytes]:
    """Refuse all but some values of what was loaded last."""
    count = len(values)
    tests = [instruction(IF_EQUAL, value, count - at, 0) for at, value in enumerate(values)]
    return [*tests, instruction(RETURN, ERRNO | EPERM)]


def with_argument(number: int, argument: int, tests: list[bytes]) -> list[bytes]:
    """Tests of one argument of one call; after them the number is loaded again."""
    inner = [instruction(LOAD, argument), *tests, instruction(LOAD, NUMBER)]
    return [instruction(IF_EQUAL, number, 0, len(inner)), *inner]
