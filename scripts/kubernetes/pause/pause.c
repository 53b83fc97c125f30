// What holds a Pod's namespaces: it waits, and reaps what is left to it.
#include <signal.h>
#include <stdlib.h>
#include <sys/wait.h>
#include <unistd.h>

static void end(int number) {
	(void)number;
	exit(0);
}

static void reap(int number) {
	(void)number;
	while (waitpid(-1, 0, WNOHANG) > 0)
		;
}

int main(void) {
	struct sigaction ends = {.sa_handler = end}, reaps = {.sa_handler = reap, .sa_flags = SA_NOCLDSTOP};
	sigaction(SIGINT, &ends, 0);
	sigaction(SIGTERM, &ends, 0);
	sigaction(SIGCHLD, &reaps, 0);
	for (;;)
		pause();
}
