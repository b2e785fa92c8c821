/* Joining and leaving a job, ranks and hosts; endpoints, segments and teams. */
#ifndef AQG_CLIENT_H
#define AQG_CLIENT_H

#include <aqg/event.h>
#include <aqg/types.h>

AQG_BEGIN

/*
 * Compilation mode of the unit that initializes the library. Each unit also refers to a symbol for
 * its network and mode (AQG_LINKED), which only libgasnet-NET-MODE defines. Mixing units of
 * different modes, or linking the wrong library, thus fails at link time with a descriptive name.
 */
struct aqg_build {
    unsigned abi; /* AQG_ABI of these headers */
    unsigned mode, segment;
    const char *conduit, *config;
    const char *header; /* path of this file, used to find the launcher */
};
#define AQG_ABI    2
#define AQG_LINKED AQG_CAT4(aqg_built_for_, AQG_CONDUIT_LOWER, _, AQG_MODE_LOWER)
extern const char AQG_LINKED[];
#ifndef AQG_LIBRARY
static const char *const aqg_linked_here __attribute__((used)) = AQG_LINKED;
/* Strings that launch scripts search for in a program, and that only the client's compilation mode
 * determines. */
static const char aqg_ident_segment[] __attribute__((used)) =
    "$GASNetSegment: GASNET_SEGMENT_" AQG_SEGMENT_STRING " $";
static const char aqg_ident_config[] __attribute__((used)) =
    "$GASNetConfig: (libgasnet.a) " GASNET_CONFIG_STRING " $";
#endif

#define AQG_BUILD_INITIALIZER                                                                      \
    {                                                                                              \
        AQG_ABI, AQG_MODE, AQG_SEGMENT, GASNET_CONDUIT_NAME_STR, GASNET_CONFIG_STRING, __FILE__    \
    }

int aqg_client_init(const struct aqg_build *build, gex_Client_t *client_p, gex_EP_t *ep_p,
                    gex_TM_t *tm_p, const char *name, int *argc, char ***argv, gex_Flags_t flags);

AQG_INLINE int gex_Client_Init(gex_Client_t *client_p, gex_EP_t *ep_p, gex_TM_t *tm_p,
                               const char *clientName, int *argc, char ***argv, gex_Flags_t flags)
{
    static const struct aqg_build build = AQG_BUILD_INITIALIZER;
    return aqg_client_init(&build, client_p, ep_p, tm_p, clientName, argc, argv, flags);
}

const char *gex_Client_QueryName(gex_Client_t client);
AQG_OBJECT(gex_Client, gex_Client_t)

void gasnet_exit(int exitcode) __attribute__((noreturn));

/* --- the system ------------------------------------------------------------------------------ */

gex_Rank_t gex_System_QueryJobRank(void);
gex_Rank_t gex_System_QueryJobSize(void);
int gex_System_GetVerboseErrors(void);
void gex_System_SetVerboseErrors(int enable);
uint64_t aqg_max_threads(unsigned mode);
AQG_CALL(uint64_t, gex_System_QueryMaxThreads, (void), aqg_max_threads(AQG_MODE))
int gex_System_QueryHiddenAMConcurrencyLevel(void);
void gex_System_QueryNbrhdInfo(gex_RankInfo_t **info_p, gex_Rank_t *count_p,
                               gex_Rank_t *my_index_p);
void gex_System_QueryHostInfo(gex_RankInfo_t **info_p, gex_Rank_t *count_p, gex_Rank_t *my_index_p);
void gex_System_QueryMyPosition(gex_Rank_t *nbrhd_set_size_p, gex_Rank_t *nbrhd_set_rank_p,
                                gex_Rank_t *host_set_size_p, gex_Rank_t *host_set_rank_p);

typedef struct {
    const char *gex_device_list;
    unsigned int gex_thread_roles;
    void *(*gex_progress_fn)(void *);
    void *gex_progress_arg;
} gex_ProgressThreadInfo_t;
#define GEX_THREAD_ROLE_RCV 1U
#define GEX_THREAD_ROLE_SND 2U
int gex_System_QueryProgressThreads(gex_Client_t client, unsigned int *count_p,
                                    const gex_ProgressThreadInfo_t **info_p, gex_Flags_t flags);

/* --- endpoints and segments ------------------------------------------------------------------ */

int gex_Segment_Attach(gex_Segment_t *segment_p, gex_TM_t tm, uintptr_t size);
int gex_Segment_Create(gex_Segment_t *segment_p, gex_Client_t client, gex_Addr_t address,
                       uintptr_t length, gex_MK_t kind, gex_Flags_t flags);
void gex_Segment_Destroy(gex_Segment_t segment, gex_Flags_t flags);
gex_Client_t gex_Segment_QueryClient(gex_Segment_t seg);
void *gex_Segment_QueryAddr(gex_Segment_t seg);
uintptr_t gex_Segment_QuerySize(gex_Segment_t seg);
AQG_OBJECT(gex_Segment, gex_Segment_t)

gex_Client_t gex_EP_QueryClient(gex_EP_t ep);
gex_Segment_t gex_EP_QuerySegment(gex_EP_t ep);
gex_EP_Index_t gex_EP_QueryIndex(gex_EP_t ep);
AQG_OBJECT(gex_EP, gex_EP_t)
int gex_EP_Create(gex_EP_t *ep_p, gex_Client_t client, gex_EP_Capabilities_t capabilities,
                  gex_Flags_t flags);
int gex_EP_BindSegment(gex_EP_t ep, gex_Segment_t segment, gex_Flags_t flags);
int gex_EP_PublishBoundSegment(gex_TM_t tm, gex_EP_t *eps, size_t num_eps, gex_Flags_t flags);
gex_Event_t gex_EP_QueryBoundSegmentNB(gex_TM_t tm, gex_Rank_t rank, void **owneraddr_p,
                                       void **localaddr_p, uintptr_t *size_p,
                                       gex_Flags_t flags) AQG_MUST_USE;
int gex_Segment_QueryBound(gex_TM_t tm, gex_Rank_t rank, void **owneraddr_p, void **localaddr_p,
                           uintptr_t *size_p);

/* --- teams ----------------------------------------------------------------------------------- */

gex_Client_t gex_TM_QueryClient(gex_TM_t tm);
gex_EP_t gex_TM_QueryEP(gex_TM_t tm);
AQG_CALL(gex_Rank_t, gex_TM_QueryRank, (gex_TM_t tm), tm->rank)
AQG_CALL(gex_Rank_t, gex_TM_QuerySize, (gex_TM_t tm), tm->size)
AQG_OBJECT(gex_TM, gex_TM_t)
size_t gex_TM_Split(gex_TM_t *new_tm_p, gex_TM_t parent_tm, int color, int key, void *scratch_addr,
                    size_t scratch_size, gex_Flags_t flags);
size_t gex_TM_Create(gex_TM_t *new_tms, size_t num_new_tms, gex_TM_t parent_tm,
                     gex_EP_Location_t *args, size_t numargs, gex_Addr_t *scratch_addrs,
                     size_t scratch_size, gex_Flags_t flags);
int gex_TM_Destroy(gex_TM_t tm, gex_Memvec_t *scratch_p, gex_Flags_t flags);
gex_TM_t gex_TM_Pair(gex_EP_t local_ep, gex_EP_Index_t remote_ep_index);
gex_Rank_t gex_TM_TranslateRankToJobrank(gex_TM_t tm, gex_Rank_t rank);
gex_Rank_t gex_TM_TranslateJobrankToRank(gex_TM_t tm, gex_Rank_t jobrank);
gex_EP_Location_t gex_TM_TranslateRankToEP(gex_TM_t tm, gex_Rank_t rank, gex_Flags_t flags);

gex_Event_t gex_Coll_BarrierNB(gex_TM_t tm, gex_Flags_t flags) AQG_MUST_USE;
void gex_Coll_BarrierBlocking(gex_TM_t tm, gex_Flags_t flags);

AQG_END

#endif
