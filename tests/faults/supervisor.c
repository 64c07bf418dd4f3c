/* SPDX-License-Identifier: MIT */
/*
 * See supervisor.h. The filter passes by everything but the calls of the plan and the marker; each
 * call among them blocks until its answer: "go on", or an error that the kernel then returns. Which
 * library a call comes from follows from its instruction and /proc/PID/maps.
 */
#include "supervisor.h"

#include "marker.h"
#include "tests/arch/arch.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/audit.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/personality.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <time.h>

/* Linux 6.6: both sides take turns on one processor. Older headers do not have it. */
#define SET_FLAGS_CALL SECCOMP_IOW(4, uint64_t)
#define SYNC_WAKE_UP 1UL

#define POLL_MS 100
#define CODE_LIMIT 64
#define STATUS_NO_FILTER 125

/* A stretch of the program's code that has been looked up. */
struct code {
    uint64_t begin;
    uint64_t end;
    bool is_wanted;
};

struct run {
    const struct plan *plan;
    struct outcome *outcome;
    pid_t pid;
    int listener;
    bool is_counting;
    struct code code[CODE_LIMIT];
    size_t code_count;
};

/* ---- in the child ---- */

static int install_filter(const struct plan *plan) {
    struct sock_filter filter[PLAN_CALLS_LIMIT + 8];
    unsigned short length = 0;
    size_t watched = plan->call_count + 1;
    filter[length++] =
        (struct sock_filter)BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, arch));
    filter[length++] =
        (struct sock_filter)BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, TEST_AUDIT_ARCH, 1, 0);
    filter[length++] = (struct sock_filter)BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW);
    filter[length++] =
        (struct sock_filter)BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, nr));
    for (size_t i = 0; i < watched; i++) {
        unsigned number = (unsigned)(i < plan->call_count ? plan->calls[i] : MARKER_CALL);
        filter[length++] = (struct sock_filter)BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, number,
                                                        (unsigned char)(watched - i), 0);
    }
    filter[length++] = (struct sock_filter)BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW);
    filter[length++] = (struct sock_filter)BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_USER_NOTIF);
    struct sock_fprog program = {length, filter};
    if (prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) != 0) {
        return -1;
    }
    return (int)syscall(SYS_seccomp, SECCOMP_SET_MODE_FILTER, SECCOMP_FILTER_FLAG_NEW_LISTENER,
                        &program);
}

union fd_message {
    struct cmsghdr header;
    char room[CMSG_SPACE(sizeof(int))];
};

static bool send_fd(int socket, int fd) {
    union fd_message control = {.header = {.cmsg_len = CMSG_LEN(sizeof(int)),
                                           .cmsg_level = SOL_SOCKET,
                                           .cmsg_type = SCM_RIGHTS}};
    char byte = 0;
    struct iovec part = {&byte, 1};
    struct msghdr message = {.msg_iov = &part,
                             .msg_iovlen = 1,
                             .msg_control = &control,
                             .msg_controllen = sizeof control};
    memcpy(CMSG_DATA(&control.header), &fd, sizeof fd);
    return sendmsg(socket, &message, 0) == 1;
}

static int receive_fd(int socket) {
    union fd_message control;
    char byte;
    struct iovec part = {&byte, 1};
    struct msghdr message = {.msg_iov = &part,
                             .msg_iovlen = 1,
                             .msg_control = &control,
                             .msg_controllen = sizeof control};
    int fd = -1;
    if (recvmsg(socket, &message, MSG_CMSG_CLOEXEC) == 1 && CMSG_FIRSTHDR(&message) != NULL) {
        memcpy(&fd, CMSG_DATA(CMSG_FIRSTHDR(&message)), sizeof fd);
    }
    return fd;
}

static void become_program(const struct plan *plan, char **command, int socket, int output) {
    (void)dup2(output, 1);
    (void)dup2(output, 2);
    (void)personality(ADDR_NO_RANDOMIZE); /* the same calls each time; refused: nearly the same */
    /* With them, a fault beside purged pages makes those resident again. */
    (void)prctl(PR_SET_THP_DISABLE, 1, 0, 0, 0);
    if (plan->preload != NULL) {
        (void)setenv("LD_PRELOAD", plan->preload, 1);
    }
    int listener = install_filter(plan);
    if (listener < 0 || !send_fd(socket, listener)) {
        _exit(STATUS_NO_FILTER);
    }
    (void)execv(command[0], command);
    dprintf(2, "cannot run %s\n", command[0]);
    _exit(126);
}

/* ---- in the supervisor ---- */

/* Looks the instruction up; one not found (the process may be ending) is not wanted. */
static struct code find_code(const struct run *run, uint64_t instruction) {
    struct code found = {instruction, instruction + 1, false};
    char line[4096 + 128];
    snprintf(line, sizeof line, "/proc/%d/maps", (int)run->pid);
    FILE *maps = fopen(line, "re");
    while (maps != NULL && fgets(line, sizeof line, maps) != NULL) {
        unsigned long begin;
        unsigned long end;
        if (sscanf(line, "%lx-%lx", &begin, &end) == 2 && instruction >= begin &&
            instruction < end) {
            found = (struct code){begin, end, strstr(line, run->plan->from) != NULL};
            break;
        }
    }
    if (maps != NULL) {
        fclose(maps);
    }
    return found;
}

static bool is_wanted(struct run *run, uint64_t instruction) {
    if (run->plan->from == NULL) {
        return true;
    }
    for (size_t i = 0; i < run->code_count; i++) {
        if (instruction >= run->code[i].begin && instruction < run->code[i].end) {
            return run->code[i].is_wanted;
        }
    }
    struct code code = find_code(run, instruction);
    if (run->code_count < CODE_LIMIT) {
        run->code[run->code_count++] = code;
    }
    return code.is_wanted;
}

static int64_t answer_marker(struct run *run, uint64_t marker) {
    run->is_counting = marker == MARKER_BEGIN;
    return (int64_t)run->outcome->injected;
}

/* 0: the kernel may go on; else the error. */
static int decide(struct run *run, const struct seccomp_data *call) {
    const struct plan *plan = run->plan;
    if (!run->is_counting || !is_wanted(run, call->instruction_pointer)) {
        return 0;
    }
    uint64_t number = ++run->outcome->seen;
    if (plan->nth == 0 || number < plan->nth || number - plan->nth >= plan->count) {
        return 0;
    }
    run->outcome->injected++;
    return plan->error;
}

static void answer_one(struct run *run) {
    struct seccomp_notif request;
    memset(&request, 0, sizeof request);
    if (ioctl(run->listener, SECCOMP_IOCTL_NOTIF_RECV, &request) != 0) {
        return; /* the thread was interrupted or has ended */
    }
    struct seccomp_notif_resp response = {.id = request.id};
    bool is_marker = request.data.nr == MARKER_CALL && request.data.args[0] == MARKER_WHICH;
    if (is_marker) {
        response.val = answer_marker(run, request.data.args[1]);
    } else {
        int error = request.data.nr == MARKER_CALL ? 0 : decide(run, &request.data);
        response.error = -error;
        response.flags = error == 0 ? SECCOMP_USER_NOTIF_FLAG_CONTINUE : 0;
    }
    (void)ioctl(run->listener, SECCOMP_IOCTL_NOTIF_SEND, &response);
}

static uint64_t now_ms(void) {
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (uint64_t)now.tv_sec * 1000 + (uint64_t)now.tv_nsec / 1000000;
}

static void serve_until_end(struct run *run) {
    uint64_t end_ms = now_ms() + (uint64_t)run->plan->seconds * 1000;
    for (;;) {
        struct pollfd listener = {.fd = run->listener, .events = POLLIN};
        int ready = poll(&listener, 1, POLL_MS);
        if (ready > 0 && (listener.revents & POLLIN) != 0) {
            answer_one(run);
            continue;
        }
        siginfo_t ended = {.si_signo = 0};
        (void)waitid(P_PID, (id_t)run->pid, &ended, WEXITED | WNOHANG | WNOWAIT);
        if (ready > 0 || ended.si_signo != 0) {
            return; /* no thread is left under the filter */
        }
        if (now_ms() > end_ms) {
            run->outcome->is_hanging = true;
            kill(run->pid, SIGKILL);
            return;
        }
    }
}

static void read_output(int file, struct outcome *outcome) {
    ssize_t length = pread(file, outcome->output, OUTPUT_LIMIT - 1, 0);
    outcome->output[length > 0 ? length : 0] = '\0';
    close(file);
}

bool supervise(const struct plan *plan, char **command, struct outcome *outcome, const char **why) {
    int sockets[2];
    int output = memfd_create("output", MFD_CLOEXEC);
    if (output < 0 || socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, sockets) != 0) {
        *why = "no sockets";
        return false;
    }
    *outcome = (struct outcome){.seen = 0};
    struct run run = {.plan = plan, .outcome = outcome, .is_counting = !plan->is_armed};
    run.pid = fork();
    if (run.pid == 0) {
        become_program(plan, command, sockets[1], output);
    }
    close(sockets[1]);
    run.listener = run.pid > 0 ? receive_fd(sockets[0]) : -1;
    close(sockets[0]);
    if (run.listener >= 0) {
        (void)ioctl(run.listener, SET_FLAGS_CALL, SYNC_WAKE_UP);
        serve_until_end(&run);
        close(run.listener); /* refuses pending calls, and the kill gets through */
    }
    if (run.pid > 0) {
        (void)waitpid(run.pid, &outcome->status, 0);
    }
    read_output(output, outcome);
    *why = "seccomp user notification is refused";
    return run.listener >= 0;
}
