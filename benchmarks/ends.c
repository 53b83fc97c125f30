/* Both ends of WebSockets, in one process: a server that echoes what comes after the upgrade, and a client that sends one frame at a
   time on each connection and counts how often it comes back. Frames are bytes to both. In C, because the ends share two cores with
   the proxy between them: whatever is faster than its ends is measured as fast as they are.
   `ends ECHO_PORT ECHO_SOCKET PORT CONNECTIONS SECONDS`, with the client's handshake on standard input; 0 seconds hold them open. */

#define _GNU_SOURCE
#include <arpa/inet.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <time.h>
#include <unistd.h>

enum { NUMBERS_MAX = 65536, EVENTS_MAX = 256, BUFFER_BYTES = 65536, BACKLOG = 4096, FRAME_BYTES = 68 };
enum kind { NOBODY, LISTENER, SERVER_GREETING, SERVER, CLIENT_GREETING, CLIENT };

static struct end {
    enum kind kind;
    char last[4]; /* of a head */
    int missing;  /* of a frame */
} ends[NUMBERS_MAX];
static const char upgraded[] = "HTTP/1.1 101 Switching Protocols\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n\r\n";
static char frame[FRAME_BYTES] = {(char)0x82, (char)0xbe}; /* masked, binary, 62 bytes */
static char handshake[BUFFER_BYTES];
static ssize_t handshake_bytes;
static int polled, port, wanted, opened[NUMBERS_MAX], opened_count;
static long messages;

static void give_up(const char *why)
{
    fprintf(stderr, "ends: %s\n", why);
    exit(1);
}

static void watch(int number, enum kind kind, unsigned events)
{
    struct epoll_event event = {.events = events, .data.fd = number};
    ends[number] = (struct end){.kind = kind};
    if (epoll_ctl(polled, EPOLL_CTL_ADD, number, &event) != 0)
        give_up("can't watch a socket");
}

static void send_whole(int number, const char *data, ssize_t size)
{
    if (write(number, data, size) != size)
        give_up("a socket did not take all at once");
}

static struct sockaddr_in local(int at)
{
    struct sockaddr_in address = {.sin_family = AF_INET, .sin_port = htons(at)};
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    return address;
}

static void listen_at(int family, const void *address, socklen_t size)
{
    int number = socket(family, SOCK_STREAM, 0), yes = 1;
    setsockopt(number, SOL_SOCKET, SO_REUSEADDR, &yes, sizeof yes);
    if (bind(number, address, size) != 0 || listen(number, BACKLOG) != 0)
        give_up("can't listen");
    watch(number, LISTENER, EPOLLIN);
}

static void open_next(void)
{
    struct sockaddr_in address = local(port);
    int number = socket(AF_INET, SOCK_STREAM, 0), yes = 1;
    setsockopt(number, IPPROTO_TCP, TCP_NODELAY, &yes, sizeof yes);
    if (connect(number, (struct sockaddr *)&address, sizeof address) != 0)
        give_up("can't connect");
    watch(number, CLIENT_GREETING, EPOLLIN | EPOLLET);
    send_whole(number, handshake, handshake_bytes);
}

static int is_greeted(struct end *end, const char *data, ssize_t size)
{
    for (ssize_t i = 0; i < size; i++) {
        memmove(end->last, end->last + 1, 3);
        end->last[3] = data[i];
    }
    return memcmp(end->last, "\r\n\r\n", 4) == 0;
}

static void leave(int number)
{
    if (ends[number].kind == CLIENT || ends[number].kind == CLIENT_GREETING)
        give_up("the proxy hung up");
    ends[number].kind = NOBODY;
    close(number);
}

static void hear(int number)
{
    static char buffer[BUFFER_BYTES];
    struct end *end = &ends[number];
    if (end->kind == LISTENER) {
        watch(accept(number, NULL, NULL), SERVER_GREETING, EPOLLIN | EPOLLET);
        return;
    }
    if (end->kind == NOBODY)
        return;
    ssize_t size = read(number, buffer, sizeof buffer);
    if (size <= 0) {
        leave(number);
    } else if (end->kind == SERVER) {
        send_whole(number, buffer, size);
    } else if (end->kind == CLIENT) {
        end->missing -= size;
        if (end->missing == 0) {
            messages++;
            end->missing = FRAME_BYTES;
            send_whole(number, frame, FRAME_BYTES);
        }
    } else if (end->kind == SERVER_GREETING && is_greeted(end, buffer, size)) {
        end->kind = SERVER;
        send_whole(number, upgraded, sizeof upgraded - 1);
    } else if (end->kind == CLIENT_GREETING && is_greeted(end, buffer, size)) {
        if (memcmp(buffer, "HTTP/1.1 101", 12) != 0)
            give_up("the proxy refused");
        end->kind = CLIENT;
        end->missing = FRAME_BYTES;
        opened[opened_count++] = number;
        if (opened_count < wanted)
            open_next();
    }
}

static double seconds(void)
{
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return now.tv_sec + now.tv_nsec / 1e9;
}

static void serve(void)
{
    struct epoll_event events[EVENTS_MAX];
    int ready = epoll_wait(polled, events, EVENTS_MAX, 50);
    for (int i = 0; i < ready; i++)
        hear(events[i].data.fd);
}

static double processor_seconds(void)
{
    struct timespec used;
    clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &used);
    return used.tv_sec + used.tv_nsec / 1e9;
}

int main(int count, char **words)
{
    if (count != 6)
        return 2;
    struct rlimit limit;
    getrlimit(RLIMIT_NOFILE, &limit);
    limit.rlim_cur = limit.rlim_max < NUMBERS_MAX ? limit.rlim_max : NUMBERS_MAX;
    setrlimit(RLIMIT_NOFILE, &limit);
    polled = epoll_create1(0);
    handshake_bytes = read(STDIN_FILENO, handshake, sizeof handshake);

    struct sockaddr_in echo_port = local(atoi(words[1]));
    struct sockaddr_un echo_socket = {.sun_family = AF_UNIX};
    strncpy(echo_socket.sun_path, words[2], sizeof echo_socket.sun_path - 1);
    unlink(words[2]);
    listen_at(AF_INET, &echo_port, sizeof echo_port);
    listen_at(AF_UNIX, &echo_socket, sizeof echo_socket);
    chmod(words[2], 0777); /* nginx's workers are nobody */

    port = atoi(words[3]);
    wanted = atoi(words[4]);
    for (open_next(); opened_count < wanted;)
        serve();
    double lasting = atof(words[5]);
    if (lasting == 0) {
        puts("open");
        fflush(stdout);
        for (;;)
            serve();
    }
    double began = seconds(), used = processor_seconds();
    for (int i = 0; i < opened_count; i++)
        send_whole(opened[i], frame, FRAME_BYTES);
    while (seconds() < began + lasting)
        serve();
    double took = seconds() - began;
    printf("%f %ld %f\n", messages / took, messages, (processor_seconds() - used) / took);
    return 0;
}
