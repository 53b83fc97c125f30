/* The limit of any proxy that reads and writes each frame: accepts, connects, passes bytes on, and knows nothing else.
   `relay PORT UPSTREAM_PORT`, both on 127.0.0.1. */

#define _GNU_SOURCE
#include <arpa/inet.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <stdlib.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <unistd.h>

enum { NUMBERS_MAX = 65536, EVENTS_MAX = 256, BUFFER_BYTES = 65536 };

static int other_end[NUMBERS_MAX];
static int polled;

static struct sockaddr_in local(int port)
{
    struct sockaddr_in address = {.sin_family = AF_INET, .sin_port = htons(port)};
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    return address;
}

static void watch(int number, unsigned events)
{
    struct epoll_event event = {.events = events, .data.fd = number};
    epoll_ctl(polled, EPOLL_CTL_ADD, number, &event);
}

static void join(int client, int upstream_port)
{
    int upstream = socket(AF_INET, SOCK_STREAM, 0), yes = 1;
    struct sockaddr_in address = local(upstream_port);
    if (connect(upstream, (struct sockaddr *)&address, sizeof address) != 0) {
        close(client);
        close(upstream);
        return;
    }
    setsockopt(client, IPPROTO_TCP, TCP_NODELAY, &yes, sizeof yes);
    setsockopt(upstream, IPPROTO_TCP, TCP_NODELAY, &yes, sizeof yes);
    other_end[client] = upstream;
    other_end[upstream] = client;
    watch(client, EPOLLIN | EPOLLET);
    watch(upstream, EPOLLIN | EPOLLET);
}

static void pass_on(int number)
{
    static char buffer[BUFFER_BYTES];
    int other = other_end[number];
    if (other == 0)
        return;
    ssize_t size = read(number, buffer, sizeof buffer);
    if (size > 0 && write(other, buffer, size) == size)
        return;
    other_end[number] = other_end[other] = 0;
    close(number);
    close(other);
}

int main(int count, char **words)
{
    if (count != 3)
        return 2;
    int listener = socket(AF_INET, SOCK_STREAM, 0);
    struct sockaddr_in address = local(atoi(words[1]));
    polled = epoll_create1(0);
    if (bind(listener, (struct sockaddr *)&address, sizeof address) != 0 || listen(listener, 4096) != 0)
        return 1;
    watch(listener, EPOLLIN);
    for (;;) {
        struct epoll_event events[EVENTS_MAX];
        int ready = epoll_wait(polled, events, EVENTS_MAX, -1);
        for (int i = 0; i < ready; i++) {
            if (events[i].data.fd == listener)
                join(accept(listener, NULL, NULL), atoi(words[2]));
            else
                pass_on(events[i].data.fd);
        }
    }
}
