/*
 * Puts and gets. If the remote segment is mapped here, they are an inline check and copy;
 * otherwise they call the library.
 */
#ifndef AQG_RMA_H
#define AQG_RMA_H

#include <aqg/types.h>

AQG_BEGIN

int aqg_put(gex_TM_t tm, gex_Rank_t rank, void *dest, const void *src, size_t nbytes,
            gex_Flags_t flags);
int aqg_put_nbi(gex_TM_t tm, gex_Rank_t rank, void *dest, const void *src, size_t nbytes,
                gex_Event_t *lc_opt, gex_Flags_t flags);
gex_Event_t aqg_put_nb(gex_TM_t tm, gex_Rank_t rank, void *dest, const void *src, size_t nbytes,
                       gex_Event_t *lc_opt, gex_Flags_t flags);
gex_RMA_Value_t aqg_get_value(gex_TM_t tm, gex_Rank_t rank, const void *src, size_t nbytes,
                              gex_Flags_t flags);

/* With these flags, addresses are offsets into segments. */
#define AQG_SEG_OFFSETS (GEX_FLAG_SELF_SEG_OFFSET | GEX_FLAG_PEER_SEG_OFFSET)

/* The address at which a transfer's remote memory is mapped here; NULL: call the library. */
AQG_INLINE void *aqg_there(gex_TM_t tm, gex_Rank_t rank, const void *addr, size_t nbytes,
                           gex_Flags_t flags)
{
    return AQG_LIKELY((flags & AQG_SEG_OFFSETS) == 0) ? aqg_mapped(tm, rank, addr, nbytes) : NULL;
}

/* A single word is not worth a call of memcpy if the length is not constant. */
AQG_INLINE void aqg_copy(void *dest, const void *src, size_t nbytes)
{
    if (nbytes == 8)
        memcpy(dest, src, 8);
    else
        memcpy(dest, src, nbytes);
}

/* Makes the bytes visible to a process that is notified of the put (by message, barrier or
 * flag). */
AQG_INLINE void aqg_store(void *at, const void *src, size_t nbytes)
{
    aqg_copy(at, src, nbytes);
    __atomic_thread_fence(__ATOMIC_RELEASE);
}

AQG_INLINE void aqg_load(void *dest, const void *at, size_t nbytes)
{
    __atomic_thread_fence(__ATOMIC_ACQUIRE);
    aqg_copy(dest, at, nbytes);
    __atomic_thread_fence(__ATOMIC_ACQUIRE); /* prevents merging, and moving after later accesses */
}

AQG_INLINE const void *aqg_value_bytes(const gex_RMA_Value_t *value, size_t nbytes)
{
#if __BYTE_ORDER__ == __ORDER_BIG_ENDIAN__
    return (const char *)value + sizeof(*value) - nbytes;
#else
    (void)nbytes;
    return value;
#endif
}

/* Returns 0 if no value has this size. */
AQG_INLINE int aqg_store_value(void *at, gex_RMA_Value_t value, size_t nbytes)
{
    if (AQG_LIKELY(nbytes == 8)) {
        memcpy(at, &value, 8);
    } else {
        const gex_RMA_Value_t copy = value; /* so that `value` needs no address */
        if (AQG_UNLIKELY(nbytes - 1 >= sizeof(copy))) return 0;
        memcpy(at, aqg_value_bytes(&copy, nbytes), nbytes);
    }
    __atomic_thread_fence(__ATOMIC_RELEASE);
    return 1;
}

/* Get from mapped memory. Returns 0 if it is not mapped and the library has to be called, as do the
 * following functions. */
AQG_INLINE int aqg_get_here(gex_TM_t tm, gex_Rank_t rank, void *dest, const void *src,
                            size_t nbytes, gex_Flags_t flags)
{
    const void *at = aqg_there(tm, rank, src, nbytes, flags);
    if (AQG_UNLIKELY(at == NULL)) return 0;
    aqg_load(dest, at, nbytes);
    return 1;
}

AQG_INLINE int aqg_put_value_here(gex_TM_t tm, gex_Rank_t rank, void *dest, gex_RMA_Value_t value,
                                  size_t nbytes, gex_Flags_t flags)
{
    void *at = aqg_there(tm, rank, dest, nbytes, flags);
    if (AQG_UNLIKELY(at == NULL || !aqg_store_value(at, value, nbytes))) return 0;
    return 1;
}

/* The three forms of a transfer, with the same parameters, performed inline (DONE) or by the
 * library (LIB). */
#define AQG_TRANSFER(NB, NBI, BLOCKING, LIB, PARAMS, VALUES, DONE)                                 \
    gex_Event_t LIB##_nb PARAMS;                                                                   \
    int LIB##_nbi PARAMS;                                                                          \
    int LIB PARAMS;                                                                                \
    AQG_MUST_USE AQG_INLINE gex_Event_t NB PARAMS                                                  \
    {                                                                                              \
        if (!(DONE)) return LIB##_nb VALUES;                                                       \
        return GEX_EVENT_INVALID;                                                                  \
    }                                                                                              \
    AQG_INLINE int NBI PARAMS                                                                      \
    {                                                                                              \
        if (!(DONE)) return LIB##_nbi VALUES;                                                      \
        return 0;                                                                                  \
    }                                                                                              \
    AQG_INLINE int BLOCKING PARAMS                                                                 \
    {                                                                                              \
        if (!(DONE)) return LIB VALUES;                                                            \
        return 0;                                                                                  \
    }

/* Also used by the library: the parameters of the transfers. */
#define AQG_GET                                                                                    \
    (gex_TM_t tm, void *dest, gex_Rank_t rank, const void *src, size_t nbytes, gex_Flags_t flags)
#define AQG_PUT_VALUE                                                                              \
    (gex_TM_t tm, gex_Rank_t rank, void *dest, gex_RMA_Value_t value, size_t nbytes,               \
     gex_Flags_t flags)

AQG_TRANSFER(gex_RMA_GetNB, gex_RMA_GetNBI, gex_RMA_GetBlocking, aqg_get, AQG_GET,
             (tm, dest, rank, src, nbytes, flags), aqg_get_here(tm, rank, dest, src, nbytes, flags))
AQG_TRANSFER(gex_RMA_PutNBVal, gex_RMA_PutNBIVal, gex_RMA_PutBlockingVal, aqg_put_value,
             AQG_PUT_VALUE, (tm, rank, dest, value, nbytes, flags),
             AQG_LIKELY(aqg_put_value_here(tm, rank, dest, value, nbytes, flags)))

AQG_INLINE int gex_RMA_PutBlocking(gex_TM_t tm, gex_Rank_t rank, void *dest, const void *src,
                                   size_t nbytes, gex_Flags_t flags)
{
    void *at = aqg_there(tm, rank, dest, nbytes, flags);
    if (AQG_UNLIKELY(at == NULL)) return aqg_put(tm, rank, dest, src, nbytes, flags);
    aqg_store(at, src, nbytes);
    return 0;
}

AQG_INLINE int gex_RMA_PutNBI(gex_TM_t tm, gex_Rank_t rank, void *dest, const void *src,
                              size_t nbytes, gex_Event_t *lc_opt, gex_Flags_t flags)
{
    void *at = aqg_there(tm, rank, dest, nbytes, flags);
    if (AQG_UNLIKELY(at == NULL)) return aqg_put_nbi(tm, rank, dest, src, nbytes, lc_opt, flags);
    aqg_store(at, src, nbytes);
    return 0;
}

AQG_MUST_USE AQG_INLINE gex_Event_t gex_RMA_PutNB(gex_TM_t tm, gex_Rank_t rank, void *dest,
                                                  const void *src, size_t nbytes,
                                                  gex_Event_t *lc_opt, gex_Flags_t flags)
{
    void *at = aqg_there(tm, rank, dest, nbytes, flags);
    if (AQG_UNLIKELY(at == NULL)) return aqg_put_nb(tm, rank, dest, src, nbytes, lc_opt, flags);
    aqg_store(at, src, nbytes);
    if ((uintptr_t)lc_opt > (uintptr_t)GEX_EVENT_GROUP) *lc_opt = GEX_EVENT_INVALID;
    return GEX_EVENT_INVALID;
}

AQG_INLINE gex_RMA_Value_t gex_RMA_GetBlockingVal(gex_TM_t tm, gex_Rank_t rank, const void *src,
                                                  size_t nbytes, gex_Flags_t flags)
{
    const void *at = aqg_there(tm, rank, src, nbytes, flags);
    gex_RMA_Value_t value = 0, part = 0;
    if (AQG_UNLIKELY(at == NULL || nbytes - 1 >= sizeof(value)))
        return aqg_get_value(tm, rank, src, nbytes, flags);
    if (AQG_LIKELY(nbytes == 8)) {
        aqg_load(&value, at, 8);
        return value;
    }
    aqg_load((void *)(uintptr_t)aqg_value_bytes(&part, nbytes), at, nbytes);
    return part;
}

AQG_END

#endif
