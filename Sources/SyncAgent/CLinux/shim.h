// Headers of Linux that Swift's Glibc module leaves out.
#ifdef __linux__
#include <linux/netlink.h>
#include <linux/rtnetlink.h>
#include <sys/timerfd.h>
#endif
