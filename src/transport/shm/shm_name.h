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
    pid_t owner; /* the process that bound it: a forked child must not remove its parent's file */
};

/* Returns AQ_EINVAL if `uri` is not a URI of shm. */
aq_status shm_name_of(const char *uri, struct shm_name *name);
/* Returns AQ_ESTATE, without logging it, if another listener has the name. */
aq_status shm_name_bind(int fd, const char *uri, struct shm_name *name);
/* Remove the file of a listener, if it has one, when it ends. */
void shm_name_release(const struct shm_name *name);

#endif
