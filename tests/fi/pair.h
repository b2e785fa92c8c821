/* Two endpoints of the provider in one process, each with its own domain, and calls that wait. */
#ifndef AQT_FI_PAIR_H
#define AQT_FI_PAIR_H

#include <rdma/fabric.h>
#include <rdma/fi_atomic.h>
#include <rdma/fi_cm.h>
#include <rdma/fi_domain.h>
#include <rdma/fi_endpoint.h>
#include <rdma/fi_eq.h>
#include <rdma/fi_errno.h>
#include <rdma/fi_rma.h>
#include <rdma/fi_tagged.h>
#include <rdma/providers/fi_prov.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

_Noreturn void check_failed(const char *file, int line, const char *format, ...)
    __attribute__((format(printf, 3, 4)));
#include "common/check.h"

/* libfabric 2 deprecates poll and wait sets and fi_av_bind, but programs for version 1 use them. */
#pragma GCC diagnostic ignored "-Wdeprecated-declarations"

struct fi_provider *fi_prov_ini(void); /* the entry point for libfabric, which no header declares */

/* Options of a test; zero is the default. */
struct pair_wish {
    uint32_t version; /* of libfabric; 0: 1.17 */
    const char *node, *service;
    uint64_t flags;  /* of fi_getinfo */
    uint32_t format; /* of addresses */
    uint64_t caps, tx_flags, cq_flags;
    int mr_mode;
    bool automatic, srx;
    enum fi_av_type av_type;
    enum fi_wait_obj wait;
    enum fi_wait_obj set; /* the object of the wait set that each side has for FI_WAIT_SET */
};

struct side {
    struct fi_info *info;
    struct fid_fabric *fabric;
    struct fid_domain *domain;
    struct fid_wait *set;
    struct fid_av *av;
    struct fid_cq *tx, *rx;
    struct fid_cntr *reads, *writes, *served;
    struct fid_ep *srx;
    struct fid_ep *ep;
    struct fid_ep *in; /* where receives are posted */
    fi_addr_t self, other;
};

struct pair {
    struct side a, b;
};

uint64_t pair_now(void);                                            /* in ns */
int pair_find(const struct pair_wish *wish, struct fi_info **info); /* as fi_getinfo */
int pair_find_by(uint32_t version, const struct fi_info *hints, struct fi_info **info);
void side_open(struct side *side, const struct pair_wish *wish);
int side_try(struct side *side, const struct pair_wish *wish);    /* returns what fi_enable does */
void side_know(struct side *side, const void *other, size_t len); /* inserts both names */
fi_addr_t side_insert(struct side *side, const void *name);
void pair_open(struct pair *pair, const struct pair_wish *wish);
void pair_close(struct pair *pair);
void side_close(struct side *side);

/* Wait for the next completion, while both sides make progress. */
struct fi_cq_tagged_entry pair_next(struct pair *pair, struct fid_cq *cq, fi_addr_t *source);
struct fi_cq_err_entry pair_error(struct pair *pair, struct fid_cq *cq);
void pair_none(struct pair *pair, struct fid_cq *cq); /* check that nothing comes for a while */
void pair_move(struct pair *pair);
/* Repeat a call while it returns -FI_EAGAIN. */
#define PAIR_CALL(pair, call)                                                                      \
    do {                                                                                           \
        ssize_t pair_got;                                                                          \
        while ((pair_got = (call)) == -FI_EAGAIN)                                                  \
            pair_move(pair);                                                                       \
        CHECK_EQUAL(pair_got, 0);                                                                  \
    } while (0)

void pattern_fill(void *bytes, size_t len, unsigned seed);
void pattern_check(const void *bytes, size_t len, unsigned seed);

#endif
