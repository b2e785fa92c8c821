/*
 * Tests hca_advice.c: the advice to users about limits, modules, settings, addresses and packets,
 * from every function that detects a problem, with an adapter that rejects everything.
 */
#include "base/capture_test.h"
#include "transport/ibv/hca_impl.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

enum { GIDS = 2, LONG_ONE = 4000, DOUBT = 11 };

static struct {
    struct ibv_device device;
    struct ibv_context context;
    struct ibv_comp_channel channel;
    struct ibv_pd pd;
    struct ibv_srq srq;
    struct ibv_qp qp;
    int devices;
    bool gives_cq;
} card;

static struct hca_tp hca;
static struct hca_peer peer;
static struct aqi_rdma_peer *peers[] = {NULL, &peer.rdma};
static struct capture capture;
static struct hca_port port = {.device = "card0", .number = 1};

static void says(const char *text, const char *part)
{
    if (strstr(text, part) == NULL) fail_msg("\"%s\" does not say \"%s\"", text, part);
}

/* --- the adapter ----------------------------------------------------------------------------- */

static struct ibv_device **card_list(int *count)
{
    struct ibv_device **list = calloc(2, sizeof(*list));
    assert_non_null(list);
    list[0] = &card.device;
    *count = card.devices;
    return list;
}

static void card_free(struct ibv_device **list)
{
    free(list);
}

static const char *card_name(struct ibv_device *device)
{
    return "card0";
}

static struct ibv_context *card_open(struct ibv_device *device)
{
    return &card.context;
}

static int card_close(struct ibv_context *context)
{
    return 0;
}

static int card_device(struct ibv_context *context, struct ibv_device_attr *attr)
{
    return 0;
}

static int card_port(struct ibv_context *context, uint8_t number, struct ibv_port_attr *attr)
{
    *attr = (struct ibv_port_attr){.link_layer = IBV_LINK_LAYER_ETHERNET,
                                   .active_mtu = IBV_MTU_1024,
                                   .gid_tbl_len = GIDS,
                                   .pkey_tbl_len = 2};
    return 0;
}

/* The table holds only 10.0.0.1. */
static int card_gid(struct ibv_context *context, uint8_t number, int index, union ibv_gid *gid)
{
    static const uint8_t first[16] = {[10] = 0xff, [11] = 0xff, [12] = 10, [15] = 1};
    if (index >= GIDS) return -1;
    memset(gid->raw, 0, sizeof(gid->raw));
    if (index == 0) memcpy(gid->raw, first, sizeof(first));
    return 0;
}

static struct ibv_pd *card_pd(struct ibv_context *context)
{
    return &card.pd;
}

static int card_pd_end(struct ibv_pd *pd)
{
    return 0;
}

static struct ibv_comp_channel *card_channel(struct ibv_context *context)
{
    return &card.channel;
}

static struct ibv_cq *card_cq(struct ibv_context *context, int entries, void *user,
                              struct ibv_comp_channel *channel, int vector)
{
    static struct ibv_cq cq;
    errno = ENOMEM;
    return card.gives_cq ? &cq : NULL;
}

static struct ibv_srq *card_srq(struct ibv_pd *pd, struct ibv_srq_init_attr *attr)
{
    errno = ENOMEM;
    return NULL;
}

static struct ibv_qp *card_qp(struct ibv_pd *pd, struct ibv_qp_init_attr *attr)
{
    errno = ENOMEM;
    return NULL;
}

static int card_modify(struct ibv_qp *qp, struct ibv_qp_attr *attr, int mask)
{
    return ENETUNREACH;
}

static struct ibv_ah *card_ah(struct ibv_pd *pd, struct ibv_ah_attr *attr)
{
    errno = EHOSTUNREACH;
    return NULL;
}

static struct ibv_mr *card_register(struct ibv_pd *pd, void *addr, size_t len, int access)
{
    errno = ENOMEM;
    return NULL;
}

static int card_destroy(struct ibv_qp *qp)
{
    return 0;
}

static const char *card_status(enum ibv_wc_status status)
{
    return "a status";
}

static void limit_memory(rlim_t bytes)
{
    struct rlimit limit;
    assert_int_equal(getrlimit(RLIMIT_MEMLOCK, &limit), 0);
    limit.rlim_cur = bytes;
    assert_int_equal(setrlimit(RLIMIT_MEMLOCK, &limit), 0);
}

static void place_ipv4(struct hca_place *place, uint8_t net, uint8_t host)
{
    *place = (struct hca_place){.link_layer = IBV_LINK_LAYER_ETHERNET, .mtu = IBV_MTU_4096};
    place->gid[10] = place->gid[11] = 0xff;
    place->gid[12] = 10;
    place->gid[13] = net;
    place->gid[15] = host;
}

static void place_infiniband(struct hca_place *place, uint8_t subnet, uint16_t lid)
{
    *place = (struct hca_place){.link_layer = IBV_LINK_LAYER_INFINIBAND, .lid = lid};
    place->gid[0] = 0xfe;
    place->gid[7] = subnet;
}

static int open_all(void **unused)
{
    memset(&card, 0, sizeof(card));
    memset(&hca, 0, sizeof(hca));
    memset(&peer, 0, sizeof(peer));
    card.context.device = &card.device;
    card.channel.fd = card.context.async_fd = STDIN_FILENO;
    hca_verbs = (struct hca_verbs){.get_device_list = card_list,
                                   .free_device_list = card_free,
                                   .get_device_name = card_name,
                                   .open_device = card_open,
                                   .close_device = card_close,
                                   .query_device = card_device,
                                   .query_port = card_port,
                                   .query_gid = card_gid,
                                   .alloc_pd = card_pd,
                                   .dealloc_pd = card_pd_end,
                                   .create_comp_channel = card_channel,
                                   .create_cq = card_cq,
                                   .create_srq = card_srq,
                                   .create_qp = card_qp,
                                   .modify_qp = card_modify,
                                   .destroy_qp = card_destroy,
                                   .create_ah = card_ah,
                                   .reg_mr = card_register,
                                   .wc_status_str = card_status};
    hca_config = (struct hca_config){
        .gid = "auto", .ports = "", .registration = 1 << 30, .inline_limit = 64};
    hca.rdma.params.size = 2;
    hca.rdma.driver = &hca_driver;
    hca.rdma.peers = peers;
    hca.rails = 1;
    hca.sends = 64;
    hca.mask = 63;
    hca.rail[0] = (struct hca_rail){.context = &card.context, .pd = &card.pd, .name = "card0:1"};
    hca.rail[0].device.max_mr_size = UINT64_C(1) << 40;
    place_ipv4(&hca.rail[0].place, 0, 1);
    peer.known = true;
    peer.addr.rails = 1;
    peer.rdma.peer.id = 1;
    hca_peer_begin(&peer);
    place_ipv4(&peer.addr.place[0], 1, 2);
    limit_memory(65536);
    return 0;
}

/* --- limits ---------------------------------------------------------------------------------- */

static void says_limit(const char *text, const char *what)
{
    says(text, "card0:1");
    says(text, what);
    says(text, "only 65536 bytes may be locked");
    says(text, "ulimit -l");
    says(text, "LimitMEMLOCK=");
    says(text, "raise it");
}

static void how_much_may_be_locked(void **unused)
{
    static char memory[8192];
    void *mr[AQI_RDMA_RAILS] = {NULL};
    assert_int_equal(hca_driver.reg(&hca.rdma, memory, sizeof(memory), AQI_PINS_READ, mr),
                     AQ_ELIMIT);
    says_limit(aq_error_message(), "register 8192 bytes");
    assert_int_equal(hca_rail_queues(&hca.rail[0], 10, 77), AQ_ESYS);
    says_limit(aq_error_message(), "completion queue of 77 entries");
    card.gives_cq = true;
    assert_int_equal(hca_rail_queues(&hca.rail[0], 10, 77), AQ_ESYS);
    says_limit(aq_error_message(), "receive queue of 10 buffers");
    assert_int_equal(hca_links_create(&hca, &peer), AQ_ELIMIT);
    says_limit(aq_error_message(), "queue pair of card0:1 with 64 sends");
    free(peer.link[0].sent);
}

static void segment_that_cannot_be_locked_is_reported(void **unused)
{
    static char memory[8192];
    struct aqi_mem *mem;
    capture_start(&capture);
    assert_int_equal(aqi_rdma_mem_reg(&hca.rdma.tp, memory, sizeof(memory), &mem), AQ_ELIMIT);
    const char *text = capture_end(&capture);
    says(text, "8192 bytes are accessed by messages");
    says_limit(text, "cannot register");
}

/* A limit that is not the cause does not hide the system's reason. */
static void other_reasons(void **unused)
{
    assert_string_equal(hca_advice_memory(EFAULT).text, strerror(EFAULT));
}

/* --- modules --------------------------------------------------------------------------------- */

static char root[64];

/* Make an empty folder below TMPDIR, where mutate.py cleans up after a crash. */
static void folder_make(char path[64])
{
    const char *below = getenv("TMPDIR");
    int len = snprintf(path, 64, "%s/aq-advice-XXXXXX", below != NULL ? below : "/tmp");
    assert_true(len < 64);
    assert_non_null(mkdtemp(path));
}

static void root_has(const char *path)
{
    char whole[128];
    snprintf(whole, sizeof(whole), "%s%s", root, path);
    assert_int_equal(mkdir(whole, 0700), 0);
}

static void root_no_more(void)
{
    static const char *const paths[] = {"/dev/infiniband/uverbs0",
                                        "/dev/infiniband",
                                        "/dev",
                                        "/sys/class/infiniband_verbs/uverbs0",
                                        "/sys/class/infiniband_verbs",
                                        "/sys/class/infiniband/mlx5_7",
                                        "/sys/class/infiniband",
                                        "/sys/class",
                                        "/sys",
                                        ""};
    char whole[128];
    for (size_t i = 0; i < AQI_COUNT_OF(paths); i++) {
        snprintf(whole, sizeof(whole), "%s%s", root, paths[i]);
        assert_int_equal(rmdir(whole), 0);
    }
}

static void which_module_or_package_is_missing(void **unused)
{
    folder_make(root);
    says(hca_advice_no_port(root).text, "load the adapter's module (such as mlx5_ib)");
    says(hca_advice_no_port(root).text, "rdma_rxe");
    root_has("/sys");
    root_has("/sys/class");
    root_has("/sys/class/infiniband");
    says(hca_advice_no_port(root).text, "load the adapter's module");
    root_has("/sys/class/infiniband/mlx5_7");
    says(hca_advice_no_port(root).text, "has mlx5_7, but the module");
    says(hca_advice_no_port(root).text, "modprobe ib_uverbs");
    root_has("/sys/class/infiniband_verbs");
    root_has("/sys/class/infiniband_verbs/uverbs0");
    says(hca_advice_no_port(root).text, "has mlx5_7, but /dev/infiniband is missing");
    root_has("/dev");
    root_has("/dev/infiniband");
    root_has("/dev/infiniband/uverbs0");
    says(hca_advice_no_port(root).text,
         "libibverbs has no driver for it: install ibverbs-providers");
    root_no_more();
}

static void which_ports_there_are(void **unused)
{
    card.devices = 1;
    hca_config.ports = "mlx9_9";
    says(hca_advice_no_port("").text, "AQ_IBV_PORTS=\"mlx9_9\" matches no port");
    says(hca_advice_no_port("").text, "whose adapters are card0");
}

/* Run in a process that finds no library at all. */
static void which_library_is_missing(void **unused)
{
    char nothing[64];
    folder_make(nothing);
    pid_t child = fork();
    if (child == 0) {
        if (chroot(nothing) != 0) _exit(77);
        const char *why = hca_verbs_missing();
        _exit(why != NULL && strstr(why, "libibverbs.so.1") != NULL &&
                      strstr(why, "install libibverbs1 and ibverbs-providers") != NULL
                  ? 0
                  : 1);
    }
    int status;
    assert_int_equal(waitpid(child, &status, 0), child);
    rmdir(nothing);
    assert_true(WIFEXITED(status));
    if (WEXITSTATUS(status) == 77) skip();
    assert_int_equal(WEXITSTATUS(status), 0);
}

/* --- settings -------------------------------------------------------------------------------- */

static void invalid_settings(void **unused)
{
    static const struct {
        const char *gid;
        uint64_t mtu, pkey;
        aq_status status;
        const char *said, *remedy;
    } rows[] = {
        {"9", 0, 0, AQ_ESYS, "card0:1 has no address (GID) with index 9", "show_gids"},
        {"1", 0, 0, AQ_ESYS, "card0:1 has no address (GID) with index 1", "set AQ_IBV_GID"},
        {"x", 0, 1, AQ_ESETTING, "AQ_IBV_GID=\"x\"", "give auto or an index"},
        {"", 0, 0, AQ_ESETTING, "AQ_IBV_GID=\"\"", "give auto or an index"},
        {"-1", 0, 0, AQ_ESETTING, "AQ_IBV_GID=\"-1\"", "give auto or an index"},
        {"256", 0, 0, AQ_ESETTING, "AQ_IBV_GID=\"256\"", "an index, 0 to 255"},
        {"auto", 3000, 0, AQ_ESETTING, "AQ_IBV_MTU=3000", "give 256, 512, 1024, 2048 or 4096"},
        {"auto", 2048, 0, AQ_ESETTING, "AQ_IBV_MTU=2048",
         "but no more than 1024, the MTU of card0:1"},
        {"auto", 0, 2, AQ_ESETTING, "AQ_IBV_PKEY=2", "below 2, the number of partition keys"},
    };
    card.devices = 1;
    for (size_t i = 0; i < AQI_COUNT_OF(rows); i++) {
        struct hca_rail rail;
        hca_config.gid = rows[i].gid;
        hca_config.mtu = rows[i].mtu;
        hca_config.pkey = rows[i].pkey;
        assert_int_equal(hca_rail_open(&rail, &port), rows[i].status);
        says(aq_error_message(), rows[i].said);
        says(aq_error_message(), rows[i].remedy);
        hca_rail_close(&rail);
    }
}

/* --- networks -------------------------------------------------------------------------------- */

static void advice_names_both_addresses(void **unused)
{
    struct hca_rail *rail = &hca.rail[0];
    struct hca_place to;
    place_ipv4(&to, 1, 2);
    says(hca_advice_path(rail, &to).text, "from card0:1 (10.0.0.1) to 10.1.0.2: ");
    says(hca_advice_path(rail, &to).text, "different networks, choose ports of one with "
                                          "AQ_IBV_PORTS");
    memset(to.gid, 0, sizeof(to.gid));
    to.gid[0] = 0xfe, to.gid[1] = 0x80, to.gid[15] = 9;
    says(hca_advice_path(rail, &to).text, "(10.0.0.1) to fe80::9: one has an IPv4 address");
    says(hca_advice_path(rail, &to).text, "choose one kind with AQ_IBV_GID");
    place_infiniband(&to, 2, 7);
    says(hca_advice_path(rail, &to).text, "one is on InfiniBand and the other on Ethernet");
    place_infiniband(&rail->place, 1, 3);
    says(hca_advice_path(rail, &to).text,
         "(LID 3 of subnet fe00:0000:0000:0001) to LID 7 of subnet fe00:0000:0000:0002: ");
    says(hca_advice_path(rail, &to).text, "ports of one subnet with AQ_IBV_PORTS, or set up");
    struct aqi_settings_table *const tables[] = {&aqi_ibv_settings};
    struct hca_config before = hca_config;
    setenv("GASNET_VAPI_PORTS", "card0:1", 1);
    assert_int_equal(aqi_settings_load(tables, 1), AQ_OK);
    says(hca_advice_path(rail, &to).text, "ports of one subnet with GASNET_VAPI_PORTS, or set up");
    unsetenv("GASNET_VAPI_PORTS");
    assert_int_equal(aqi_settings_load(tables, 1), AQ_OK);
    hca_config = before;
    place_infiniband(&to, 1, 7);
    says(hca_advice_path(rail, &to).text, "subnet manager");
}

static void has_no_way(int err)
{
    assert_int_equal(peer.state, HCA_DOWN);
    says(peer.rdma.why, strerror(err));
    says(peer.rdma.why, "from card0:1 (10.0.0.1) to 10.1.0.2: if these are in different networks");
}

static void peer_without_route(void **unused)
{
    peer.state = HCA_CALLING;
    hca.greeter.calling = &peer;
    capture_start(&capture);
    hca_greet_timers(&hca);
    capture_end(&capture);
    has_no_way(EHOSTUNREACH);
}

/* The second one may have a route. */
static void peer_without_route_on_any_rail(void **unused)
{
    hca.rails = peer.addr.rails = 2;
    hca.rail[1] = hca.rail[0];
    place_ipv4(&peer.addr.place[1], 1, 2);
    peer.state = HCA_CALLING;
    hca.greeter.calling = &peer;
    capture_start(&capture);
    hca_greet_timers(&hca);
    assert_int_equal(peer.state, HCA_CALLING);
    hca.rdma.now += UINT64_C(1000000000);
    hca_greet_timers(&hca);
    capture_end(&capture);
    has_no_way(EHOSTUNREACH);
}

static void a_queue_pair_that_cannot_be_connected(void **unused)
{
    peer.state = HCA_CALLING;
    peer.used = 1;
    peer.link[0].qp = &card.qp;
    capture_start(&capture);
    hca_links_connect(&hca, &peer, peer.addr.place, 1);
    capture_end(&capture);
    has_no_way(ENETUNREACH);
}

static void a_peer_that_does_not_answer(void **unused)
{
    peer.state = HCA_CALLING;
    hca.greeter.calling = &peer;
    hca.greeter.out = HCA_GREETINGS_OUT;
    capture_start(&capture);
    for (unsigned s = 1; s <= DOUBT; s++) {
        hca.rdma.now = s * UINT64_C(1000000000);
        hca_greet_timers(&hca);
    }
    const char *text = capture_end(&capture);
    says(text, "rank 1 has not answered for 10 s");
    says(text, "from card0:1 (10.0.0.1) to 10.1.0.2: if these are in different networks");
}

/* The address of rank 1, as the job knows it: its port is on InfiniBand. */
static aq_status infiniband_address(void *arg, const struct aqi_tp *tp, uint32_t id, void *addr,
                                    size_t *len)
{
    struct hca_addr place;
    memset(&place, 0, sizeof(place));
    memcpy(place.magic, hca_magic, sizeof(place.magic));
    place.rails = 1;
    place_infiniband(&place.place[0], 1, 7);
    *len = offsetof(struct hca_addr, place) + sizeof(place.place[0]);
    memcpy(addr, &place, *len);
    return AQ_OK;
}

static void a_peer_on_another_kind_of_network(void **unused)
{
    struct aqi_peer *found;
    hca.rdma.tp.hooks.lookup = infiniband_address;
    capture_start(&capture);
    assert_int_equal(aqi_ibv_transport.connect(&hca.rdma.tp, 1, 0, &found), AQ_ENOTSUP);
    const char *text = capture_end(&capture);
    says(text, "no route to rank 1 from card0:1 (10.0.0.1) to LID 7 of subnet");
    says(text, "choose ports of one network with AQ_IBV_PORTS");
}

/* Greetings and short messages arrive; the first long one does not, repeatedly. */
static void a_network_that_carries_less_than_its_ports(void **unused)
{
    static struct aqi_rdma_buf buf = {.len = LONG_ONE};
    const struct ibv_wc wc = {.wr_id = UINT64_C(1) << 32 | HCA_WR_SEND,
                              .status = IBV_WC_RETRY_EXC_ERR};
    for (unsigned round = 0; round < 3; round++) {
        struct hca_sent sent = {.piece.buf = &buf};
        peer.link[0] = (struct hca_link){.qp = &card.qp, .sent = &sent, .head = 1};
        peer.state = HCA_UP;
        peer.generation = round;
        peer.broken = false;
        capture_start(&capture);
        hca_link_completed(&hca, &wc);
        const char *text = capture_end(&capture);
        if (round != 1) {
            assert_null(strstr(text, "AQ_IBV_MTU"));
            continue;
        }
        says(text,
             "rank 1 answers, but messages of 4000 bytes do not arrive: the network from card0:1 "
             "(10.0.0.1) to 10.1.0.2 may not carry packets of 4096 bytes");
        says(text, "set AQ_IBV_MTU=1024, or raise the MTU");
    }
}

int main(void)
{
    static const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup(how_much_may_be_locked, open_all),
        cmocka_unit_test_setup(segment_that_cannot_be_locked_is_reported, open_all),
        cmocka_unit_test_setup(other_reasons, open_all),
        cmocka_unit_test_setup(which_module_or_package_is_missing, open_all),
        cmocka_unit_test_setup(which_ports_there_are, open_all),
        cmocka_unit_test_setup(which_library_is_missing, open_all),
        cmocka_unit_test_setup(invalid_settings, open_all),
        cmocka_unit_test_setup(advice_names_both_addresses, open_all),
        cmocka_unit_test_setup(peer_without_route, open_all),
        cmocka_unit_test_setup(peer_without_route_on_any_rail, open_all),
        cmocka_unit_test_setup(a_queue_pair_that_cannot_be_connected, open_all),
        cmocka_unit_test_setup(a_peer_that_does_not_answer, open_all),
        cmocka_unit_test_setup(a_peer_on_another_kind_of_network, open_all),
        cmocka_unit_test_setup(a_network_that_carries_less_than_its_ports, open_all),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
