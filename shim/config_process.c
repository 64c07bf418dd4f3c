/* SPDX-License-Identifier: MIT */
/*
 * The settings of the process: read from its environment once, at the start, and compared with the
 * machine. Calls the kernel only. No locks; see config.h.
 */
#include "shim/config.h"

#include "pools/engine/os/auxiliary.h"
#include "pools/engine/os/hugetlb.h"
#include "pools/engine/os/syscall.h"

#include <errno.h>
#include <sys/auxv.h>
#include <unistd.h>

#define REASON_BYTES 192

struct reason {
    char buffer[REASON_BYTES];
    struct ps_text text;
};

static void report(struct reason *reason, int message_fd) {
    ps_config_report_contradiction(
        message_fd, &ps_options[PS_OPTION_HUGE],
        (struct ps_str){.data = reason->buffer, .length = reason->text.length});
}

/* Reports, and uses the value that is in force without the setting. */
static uint32_t refuse(struct ps_settings *settings, struct reason *reason, int message_fd) {
    settings->engine.huge = (struct ps_huge_setting){.policy = PS_HUGE_AUTO};
    settings->origins[PS_OPTION_HUGE] = PS_ORIGIN_DEFAULT;
    ps_text_add(&reason->text, "; using ");
    ps_value_print(&ps_options[PS_OPTION_HUGE], settings, &reason->text);
    report(reason, message_fd);
    return 1;
}

uint32_t ps_config_settle_huge(struct ps_settings *settings, int message_fd) {
    struct ps_huge_setting *huge = &settings->engine.huge;
    struct reason reason;
    ps_text_start(&reason.text, reason.buffer, sizeof reason.buffer, PS_TEXT_TO_BUFFER);
    if (huge->policy != PS_HUGE_HUGETLB) {
        return 0;
    }
    if (settings->engine.harden != 0) {
        ps_text_add(&reason.text, "hugetlb has no pages that HARDEN could protect singly");
        return refuse(settings, &reason, message_fd);
    }
    size_t page_bytes = huge->page_bytes != 0 ? huge->page_bytes : ps_hugetlb_usual_bytes();
    bool is_fit = ps_is_power_of_two(page_bytes) && page_bytes >= PS_HUGETLB_BYTES_LEAST &&
                  page_bytes <= PS_HUGETLB_BYTES_MOST;
    if (!is_fit || ps_hugetlb_probe(page_bytes) == ENOSYS) {
        ps_text_add(&reason.text, "this machine has no huge pages");
        if (page_bytes != 0) {
            ps_text_add(&reason.text, " of ");
            ps_text_add_size(&reason.text, page_bytes);
        }
        return refuse(settings, &reason, message_fd);
    }
    huge->page_bytes = page_bytes;
    if (ps_hugetlb_count(page_bytes) != 0) {
        return 0;
    }
    ps_text_add(&reason.text, "no huge page of ");
    ps_text_add_size(&reason.text, page_bytes);
    ps_text_add(&reason.text, " is set aside, so ordinary ones are used; poolshim doctor has more");
    report(&reason, message_fd);
    return 1;
}

/* Written once by ps_shim_configure, before any second thread can read it. */
static PS_SPARSE struct ps_settings process_settings;

void ps_shim_configure(struct ps_config *out, char *const *environment) {
    const struct ps_config_input input = {
        .environment = environment,
        .environment_file = "/proc/self/environ",
        .is_secure = ps_auxiliary(AT_SECURE) != 0,
        .message_fd = STDERR_FILENO,
        .settle = ps_config_settle_huge,
    };
    uint32_t fault_count = ps_config_read(&process_settings, &input);
    if (fault_count > 0 && process_settings.strict) {
        ps_config_report_stop(input.message_fd, fault_count);
        ps_syscall3(SYS_exit_group, PS_EXIT_STRICT, 0, 0);
    }
    *out = process_settings.engine;
}

const struct ps_settings *ps_shim_settings(void) { return &process_settings; }
