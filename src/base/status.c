/* Names and meanings of the status codes. */
#include "base/base.h"

/* AQ_AGAIN, the only positive status, is first; AQ_OK and the failures follow, descending. */
#define STATUS_ROW(status) [AQ_AGAIN - (status)]

static const struct {
    const char *name;
    const char *text;
} status_rows[] = {
    STATUS_ROW(AQ_AGAIN) = {"AQ_AGAIN", "not now: not enough resources, or not complete yet"},
    STATUS_ROW(AQ_OK) = {"AQ_OK", "success"},
    STATUS_ROW(AQ_EINVAL) = {"AQ_EINVAL", "an argument is invalid"},
    STATUS_ROW(AQ_ERANK) = {"AQ_ERANK", "the rank is not a member of the team"},
    STATUS_ROW(AQ_ERANGE) = {"AQ_ERANGE", "an address range is not inside its segment"},
    STATUS_ROW(AQ_ESIZE) = {"AQ_ESIZE", "a size exceeds the limit that the library reports"},
    STATUS_ROW(AQ_EHANDLER) = {"AQ_EHANDLER",
                               "the handler index is reserved, taken or not registered"},
    STATUS_ROW(AQ_ESTATE) = {"AQ_ESTATE",
                             "called before aq_init, after aq_finalize, twice, or out of order"},
    STATUS_ROW(AQ_ECONTEXT) = {"AQ_ECONTEXT",
                               "not allowed inside a handler, or only allowed there"},
    STATUS_ROW(AQ_ENOMEM) = {"AQ_ENOMEM", "out of memory"},
    STATUS_ROW(AQ_ELIMIT) = {"AQ_ELIMIT", "a limit of the system or of a setting was reached"},
    STATUS_ROW(AQ_ENOTSUP) = {"AQ_ENOTSUP", "not supported by this build, machine or transport"},
    STATUS_ROW(AQ_ESYS) = {"AQ_ESYS", "a system call failed"},
    STATUS_ROW(AQ_EPEER) = {"AQ_EPEER", "the peer is dead or unreachable"},
    STATUS_ROW(AQ_ETIMEOUT) = {"AQ_ETIMEOUT", "timed out"},
    STATUS_ROW(AQ_EPROTO) = {"AQ_EPROTO",
                             "the peer uses a different version, or sent malformed data"},
    STATUS_ROW(AQ_EMISMATCH) = {"AQ_EMISMATCH", "the ranks of a collective call disagree"},
    STATUS_ROW(AQ_ESETTING) = {"AQ_ESETTING", "an environment variable has an invalid value"},
    STATUS_ROW(AQ_EACCESS) = {"AQ_EACCESS", "access is denied, by the system or by a peer"},
    STATUS_ROW(AQ_EREFUSED) =
        {"AQ_EREFUSED",
         "nothing is listening at that address, or the connection request was rejected"},
};
static_assert(AQI_COUNT_OF(status_rows) == AQ_AGAIN - AQ_EREFUSED + 1,
              "one row for each status (AQ_EREFUSED is the last)");
static_assert(AQ_AGAIN == 1 && AQ_OK == 0, "AQ_AGAIN is the only positive status");

static bool status_known(aq_status status)
{
    return (int)status <= AQ_AGAIN && (int)status >= AQ_EREFUSED;
}

const char *aq_status_name(aq_status status)
{
    return status_known(status) ? status_rows[AQ_AGAIN - status].name : "AQ_UNKNOWN";
}

const char *aq_status_text(aq_status status)
{
    return status_known(status) ? status_rows[AQ_AGAIN - status].text
                                : "not a status of this library";
}
