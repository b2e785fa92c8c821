/* The program has 30 instructions, written here so that neither a compiler nor a library is needed
 * to load it. */
#include "dgram/ports/xdp_program.h"

#include "base/fail.h"

#include <arpa/inet.h>
#include <errno.h>
#include <linux/bpf.h>
#include <linux/if_link.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

/* Offsets in an Ethernet frame with IPv4 and UDP. */
enum {
    TYPE = 12,
    VERSION = 14,
    FRAGMENT = 20,
    PROTOCOL = 23,
    TARGET = 30,
    PORT = 36,
    HEADERS = 42
};

static int xdp_program_call(enum bpf_cmd command, union bpf_attr *attr)
{
    return (int)syscall(SYS_bpf, command, attr, sizeof(*attr));
}

aq_status ports_xdp_failed(int error, const char *name, const char *what, const char *privilege)
{
    if (error == EPERM || error == EACCES)
        return aqi_fail(
            AQ_EACCESS, "udp",
            "AF_XDP on interface %s: %s is not permitted: it needs %s (AF_XDP needs CAP_BPF, "
            "CAP_NET_ADMIN and CAP_NET_RAW in all); run as root, or set AQ_UDP_PORT=socket",
            name, what, privilege);
    if (error == EAFNOSUPPORT || error == EOPNOTSUPP || error == ENOSYS)
        return aqi_fail_errno(AQ_ENOTSUP, error, "udp",
                              "AF_XDP on interface %s: the kernel or the driver does not support "
                              "it (%s); set AQ_UDP_PORT=socket",
                              name, what);
    return aqi_fail_errno(AQ_ESYS, error, "udp", "AF_XDP on interface %s: %s failed", name, what);
}

#define LOAD(size, to, from, at)                                                                   \
    {                                                                                              \
        .code = BPF_LDX | BPF_MEM | (size), .dst_reg = (to), .src_reg = (from), .off = (at)        \
    }
#define MOVE(to, from)                                                                             \
    {                                                                                              \
        .code = BPF_ALU64 | BPF_MOV | BPF_X, .dst_reg = (to), .src_reg = (from)                    \
    }
#define SET(to, value)                                                                             \
    {                                                                                              \
        .code = BPF_ALU64 | BPF_MOV | BPF_K, .dst_reg = (to), .imm = (value)                       \
    }
/* A jump to where the packet is passed to the kernel; filled in below. */
#define ELSEWHERE INT16_MAX
#define IF_ABOVE(a, b)                                                                             \
    {                                                                                              \
        .code = BPF_JMP | BPF_JGT | BPF_X, .dst_reg = (a), .src_reg = (b), .off = ELSEWHERE        \
    }
#define UNLESS(value)                                                                              \
    {                                                                                              \
        .code = BPF_JMP32 | BPF_JNE | BPF_K, .dst_reg = 5, .off = ELSEWHERE,                       \
        .imm = (int32_t)(value)                                                                    \
    }

/* Register 2 is the frame, 3 its end, 6 the context. Returns a descriptor, or -1. */
static int xdp_program_load(const struct ports_xdp_filter *filter, int map)
{
    struct bpf_insn code[] = {
        MOVE(6, 1),
        LOAD(BPF_W, 2, 6, offsetof(struct xdp_md, data)),
        LOAD(BPF_W, 3, 6, offsetof(struct xdp_md, data_end)),
        MOVE(4, 2),
        {.code = BPF_ALU64 | BPF_ADD | BPF_K, .dst_reg = 4, .imm = HEADERS},
        IF_ABOVE(4, 3),
        LOAD(BPF_H, 5, 2, TYPE),
        UNLESS(htons(0x0800)),
        LOAD(BPF_B, 5, 2, VERSION),
        UNLESS(0x45),
        LOAD(BPF_B, 5, 2, PROTOCOL),
        UNLESS(17),
        LOAD(BPF_W, 5, 2, TARGET),
        UNLESS(filter->ip),
        LOAD(BPF_H, 5, 2, PORT),
        UNLESS(filter->port),
        LOAD(BPF_H, 5, 2, FRAGMENT),
        {.code = BPF_ALU64 | BPF_AND | BPF_K, .dst_reg = 5, .imm = htons(0x3fff)},
        UNLESS(0),
        /* Packets that were merged on the way are passed to the kernel. */
        SET(4, (int32_t)filter->longest),
        {.code = BPF_ALU64 | BPF_SUB | BPF_X, .dst_reg = 3, .src_reg = 2},
        IF_ABOVE(3, 4),
        LOAD(BPF_W, 2, 6, offsetof(struct xdp_md, rx_queue_index)),
        {.code = BPF_LD | BPF_DW | BPF_IMM, .dst_reg = 1, .src_reg = BPF_PSEUDO_MAP_FD, .imm = map},
        {.code = 0},      /* the other half of it */
        SET(3, XDP_PASS), /* from queues without a socket */
        {.code = BPF_JMP | BPF_CALL, .imm = BPF_FUNC_redirect_map},
        {.code = BPF_JMP | BPF_EXIT},
        SET(0, XDP_PASS),
        {.code = BPF_JMP | BPF_EXIT},
    };
    unsigned count = AQI_COUNT_OF(code);
    for (unsigned i = 0; i < count; i++)
        if (code[i].off == ELSEWHERE) code[i].off = (int16_t)(count - 2 - (i + 1));
    union bpf_attr attr;
    memset(&attr, 0, sizeof(attr));
    attr.prog_type = BPF_PROG_TYPE_XDP;
    attr.insns = (uintptr_t)code;
    attr.insn_cnt = count;
    attr.license = (uintptr_t) "Dual BSD/GPL";
    attr.prog_flags = BPF_F_XDP_HAS_FRAGS; /* drivers with large packets require that */
    int program = xdp_program_call(BPF_PROG_LOAD, &attr);
    if (program >= 0 || errno != EINVAL) return program;
    attr.prog_flags = 0; /* kernels before 5.18 */
    return xdp_program_call(BPF_PROG_LOAD, &attr);
}

static int xdp_program_link(const struct ports_xdp_filter *filter, int program, uint32_t flags)
{
    union bpf_attr attr;
    memset(&attr, 0, sizeof(attr));
    attr.link_create.prog_fd = (uint32_t)program;
    attr.link_create.target_ifindex = filter->interface;
    attr.link_create.attach_type = BPF_XDP;
    attr.link_create.flags = flags;
    return xdp_program_call(BPF_LINK_CREATE, &attr);
}

aq_status ports_xdp_load(struct ports_xdp_program *program, const struct ports_xdp_filter *filter)
{
    union bpf_attr attr;
    memset(&attr, 0, sizeof(attr));
    attr.map_type = BPF_MAP_TYPE_XSKMAP;
    attr.key_size = attr.value_size = sizeof(uint32_t);
    attr.max_entries = PORTS_XDP_QUEUES;
    program->map = xdp_program_call(BPF_MAP_CREATE, &attr);
    if (program->map < 0)
        return ports_xdp_failed(errno, filter->name, "creating a BPF map",
                                "CAP_BPF and CAP_NET_ADMIN");
    program->program = xdp_program_load(filter, program->map);
    if (program->program < 0)
        return ports_xdp_failed(errno, filter->name, "loading a BPF program",
                                "CAP_BPF and CAP_NET_ADMIN");
    return AQ_OK;
}

aq_status ports_xdp_attach(struct ports_xdp_program *program, const struct ports_xdp_filter *filter)
{
    program->generic = filter->generic;
    program->link = filter->generic ? -1 : xdp_program_link(filter, program->program, 0);
    if (program->link < 0 && (filter->generic || (errno != EBUSY && errno != EEXIST))) {
        program->generic = true;
        program->link = xdp_program_link(filter, program->program, XDP_FLAGS_SKB_MODE);
    }
    if (program->link >= 0) return AQ_OK;
    if (errno == EBUSY || errno == EEXIST) return AQ_AGAIN;
    return ports_xdp_failed(errno, filter->name, "attaching a BPF program", "CAP_NET_ADMIN");
}

aq_status ports_xdp_steer(struct ports_xdp_program *program, const struct ports_xdp_filter *filter,
                          uint32_t queue, int socket)
{
    union bpf_attr attr;
    uint32_t fd = (uint32_t)socket;
    memset(&attr, 0, sizeof(attr));
    attr.map_fd = (uint32_t)program->map;
    attr.key = (uintptr_t)&queue;
    attr.value = (uintptr_t)&fd;
    if (xdp_program_call(BPF_MAP_UPDATE_ELEM, &attr) == 0) return AQ_OK;
    return ports_xdp_failed(errno, filter->name, "writing to a BPF map", "CAP_BPF");
}

void ports_xdp_detach(struct ports_xdp_program *program)
{
    int *const fds[] = {&program->link, &program->program, &program->map};
    for (unsigned i = 0; i < AQI_COUNT_OF(fds); i++) {
        if (*fds[i] >= 0) close(*fds[i]);
        *fds[i] = -1;
    }
}
