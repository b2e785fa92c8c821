/* shm: the sockets that URIs name: abstract, or in a folder that several network namespaces see. */
#ifndef SHM_NAME_H
#define SHM_NAME_H

#include "base/base.h"

#include <sys/socket.h>
#include <sys/types.h>
#include <sys/un.h>

struct shm_name {
    struct sockaddr_un at;
    socklen_t len;
    pid_t owner; /* that has bound it: a forked child leaves its parent's alone */
};

/* AQ_EINVAL: not a URI of shm. */
aq_status shm_name_of(const char *uri, struct shm_name *name);
/* AQ_ESTATE: taken, which is not logged. */
aq_status shm_name_bind(int fd, const char *uri, struct shm_name *name);
/* A listener ends: leave no file. */
void shm_name_release(const struct shm_name *name);

#endif
