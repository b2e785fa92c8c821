/* Joining the job, and the client's queries about itself and the job. */
#include "aqg.h"

#include <gasnet.h>

struct aqgi_state aqgi = {.verbose_errors = true, .size = 1, .max_threads = AQGI_THREADS};
struct aqg_tm *aqg_world;
gex_Rank_t gasneti_mynode;

/* A client may define the first two with its own initializers, which take precedence. */
const char *gasnet_max_segsize_str __attribute__((weak));
uint64_t gasnet_max_segsize __attribute__((weak));
void (*gasnet_client_attach_hook)(void *segbase, uintptr_t segsize);
volatile int gasnet_frozen;

static int client_check_build(const struct aqg_build *build)
{
    if (build->abi != AQG_ABI)
        return aqgi_refuse(
            GASNET_ERR_BAD_ARG,
            "the program was compiled with headers of another version of Aqueduct (interface %u) "
            "than the library it is linked with (interface %u): recompile it",
            build->abi, AQG_ABI);
    if (build->mode > 2 || build->segment > 2)
        return aqgi_refuse(GASNET_ERR_BAD_ARG,
                           "the program's threading mode %u or segment mode %u is unknown",
                           build->mode, build->segment);
    return GASNET_OK;
}

static const aq_thread_mode thread_modes[] = {AQ_THREAD_SINGLE, AQ_THREAD_SERIALIZED,
                                              AQ_THREAD_MULTIPLE};

static void client_open_objects(aq_team *world)
{
    aqgi.rank = gasneti_mynode = aq_job_rank();
    aqgi.size = aq_job_size();
    aqgi.ep.aq = aq_team_ep(world);
    aqgi.ep.capabilities = GEX_EP_CAPABILITY_ALL;
    aqgi.eps[0] = &aqgi.ep;
    aqgi.reach[0] = aqgi_alloc(aqgi.size, sizeof(*aqgi.reach[0]), "the segments of all processes");
    aqgi.world = (struct aqgi_team){
        .head = {.reach = aqgi.reach[0], .rank = aqgi.rank, .size = aqgi.size, .plain = aqgi.size},
        .aq = world,
        .ep = &aqgi.ep};
    aqg_world = &aqgi.world.head;
    aqgi.open = true;
}

static int client_rank_of_job(void)
{
    return aqgi.open ? (int)aqgi.rank : -1;
}

static aq_status client_open_job(const struct aqg_build *build, const char *name, aq_team **world)
{
    aq_init_params params = {.struct_size = sizeof(params),
                             .thread_mode = thread_modes[build->mode],
                             .client_name = name,
                             .register_call = "gex_EP_RegisterHandlers",
                             .create_call = "gex_EP_Create with GEX_EP_CAPABILITY_AM",
                             .exit_wait_ns = AQGI_EXIT_WAIT,
                             .segment_modes = AQ_SEGMENT_BIT(build->segment)};
    return aq_init(&params, world);
}

int aqg_client_init(const struct aqg_build *build, gex_Client_t *client_p, gex_EP_t *ep_p,
                    gex_TM_t *tm_p, const char *name, int *argc, char ***argv, gex_Flags_t flags)
{
    static const char call[] = "gex_Client_Init";
    aq_team *world;
    int code = client_check_build(build);
    if (code != GASNET_OK) return code;
    if (aqgi.open)
        return aqgi_refuse(GASNET_ERR_RESOURCE, "%s: the library is already initialized", call);
    aqgi_spawn(build);
    aqg_getenv_hook = gasnet_getenv;
    aqg_rank_hook = client_rank_of_job;
    aqg_abort_hook = aqgi_signals_abort;
    aqgi_env_prepare();
    aqgi_signals_prepare();
    code = aqgi_error(call, client_open_job(build, name, &world));
    if (code != GASNET_OK) return code;
    aqgi.mode = build->mode;
    aqgi.segment_mode = build->segment;
    aqg_concurrent = build->mode != 0 || aq_job_progress_thread();
    client_open_objects(world);
    aqgi.client.flags = flags;
    aqgi.client.name = strdup(name != NULL ? name : "");
    aqgi_signals_open();
    aqgi_env_report();
    gasnett_backtrace_init(gasnett_exe_name());
    if (gasnett_getenv_yesno_withdefault("GASNET_FREEZE", 0))
        gasnett_freezeForDebuggerNow(&gasnet_frozen, "gasnet_frozen");
    code = aqgi_error(call, aqgi_vis_open(&aqgi.ep));
    if (code == GASNET_OK) code = aqgi_error(call, aqgi_segment_open());
    if (code != GASNET_OK) return code;
    code = aqgi_error(call, aqgi_system_open());
    if (client_p != NULL) *client_p = &aqgi.client;
    if (ep_p != NULL) *ep_p = &aqgi.ep;
    if (tm_p != NULL) *tm_p = aqg_world;
    return code;
}

AQG_DEFINE(const char *, gex_Client_QueryName, (gex_Client_t client), client->name)
AQGI_OBJECT(gex_Client, gex_Client_t client, client)
AQG_DEFINE(gex_Rank_t, gex_System_QueryJobRank, (void), aqgi.rank)
AQG_DEFINE(gex_Rank_t, gex_System_QueryJobSize, (void), aqgi.size)
AQG_DEFINE(int, gex_System_GetVerboseErrors, (void), aqgi.verbose_errors)

void gex_System_SetVerboseErrors(int enable)
{
    aqgi.verbose_errors = enable != 0;
    aq_error_log(enable);
}
