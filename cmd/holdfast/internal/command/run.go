package command

import (
	"cmp"
	"errors"
	"fmt"
	"os"
	"slices"
	"time"
)

// runCmd is `holdfast run`.
type runCmd struct {
	Resource text   `arg:"" help:"Name of the resource to lock, such as stock:42."`
	More     texts  `arg:"" optional:"" name:"more" help:"Names of further resources: all are locked, or none."`
	Cmd      []text `arg:"" optional:"" name:"cmd" help:"Command and its arguments, after --."`
	// behind is the number of arguments after the first --, or -1 if there is none. The
	// parser fills Resource, More and Cmd in turn and ignores the --.
	behind int

	Line text `name:"command" short:"c" placeholder:"LINE" help:"Run LINE in the shell ($SHELL, or /bin/sh) in place of CMD."`
	lockFlags
	guardFlags
}

// Help is the long text of --help.
func (*runCmd) Help() string {
	return `CMD runs in its own process group while holdfast holds and renews the lease. holdfast forwards INT, TERM, HUP,
QUIT, USR1 and USR2 to the group. It releases the lease when the whole group has ended, including background
processes; a program leaves the group with setsid.
On a terminal, on Linux, CMD belongs to the job of the shell instead, as under flock: CMD reads the terminal, also
in a pipeline, and ^C, ^Z, fg and bg work. A stopped job keeps its lease. A signal that ends CMD also ends holdfast.
On other systems CMD keeps its own group there: it can read the terminal only if that is the standard input of
holdfast, so not in a pipeline, and ^Z does not stop it.
If the lease cannot be renewed, the group gets TERM and then KILL, in time before another holder can get the
resource, even if holdfast itself is killed or stopped. This begins when a third of the TTL is left, so a longer
--ttl survives longer outages of the store. The environment of CMD has HOLDFAST_RESOURCE, HOLDFAST_TOKEN (the
fencing token: send it with every write), HOLDFAST_TOKENS (a JSON object with the token of each resource),
HOLDFAST_HOLDER, HOLDFAST_TTL_MS, and HOLDFAST_CHAIN: the leases under which CMD runs, which a holdfast run in CMD
reads, so that it does not wait for one of them.

A wait is reported on standard error: the place in the queue, the holder and the elapsed time, each second on one
line of a terminal, and as one line per minute elsewhere.

By default one command runs at a time. With --slots N up to N run at once. With --shared any number run at once, and
a command without --shared runs alone, as under flock; they enter in the order in which they came, so --shared
commands cannot starve it. While services use the resource as a mutex, --shared commands run one at a time too. A
resource in use as a semaphore (--slots N), or in any other way, cannot be used as a lock at the same time: exit 78.

With several names CMD runs when it holds all of them, as mutexes: --shared, --exclusive, --slots and --weight take
one name, so nest holdfast run for these. The names are acquired one by one in alphabetical order, so such runs do not
deadlock; while it waits for one it holds those before. HOLDFAST_TOKEN is the token of the first name. If one is
lost, all are.

Exit codes: CMD's own, or
	 75  not acquired: held and -n, or -w ran out   (-E N: N instead)
	 79  the lease was lost and CMD was stopped in time
	124  --timeout was hit      137  and KILL was needed
	128+N  CMD died of signal N, or signal N ended a wait: holdfast ends by the same signal
	125  holdfast failed        126  CMD cannot be executed     127  CMD not found
	 64  usage     69  store unreachable     77  store refuses user or rights     78  bad configuration

Examples:
	holdfast run nightly-report -- ./report.sh --full
	holdfast run -n cache-warmup -- ./warm.sh || echo "already running elsewhere"
	holdfast run -w 5m --reason "release 4.2" deploy:prod -- sh -c 'build && ship'
	holdfast run --slots 4 transcode -- ./transcode.sh film.mkv
	holdfast run --slots 16 --weight 4 memory-gb -- ./index.sh
	holdfast run account:1 account:2 -- ./transfer.sh
	holdfast run deploy:prod -c 'build && ship'
	holdfast run --shared catalogue -- ./export.sh
	holdfast run catalogue -- ./rebuild.sh
	holdfast run --metrics-file /var/lib/node_exporter/report.prom report -- ./report.sh
	holdfast run --ttl 5s --timeout 1h -s INT import -- ./import < data.csv`
}

// split returns the names and the command. Without -- and -c there is one name.
func (c *runCmd) split() (names, cmd []text, err error) {
	args := slices.Concat([]text{c.Resource}, c.More.list, c.Cmd)
	n := len(args) - c.behind
	switch {
	case c.Line != "" && c.behind > 0:
		return nil, nil, errors.New("-c takes the place of CMD: omit what stands behind --")
	case c.Line != "":
		shell := cmp.Or(os.Getenv("SHELL"), "/bin/sh")
		return args, []text{text(shell), "-c", c.Line}, nil
	case c.behind < 0:
		n = 1
	}
	switch {
	case n < 1:
		return nil, nil, errors.New("expected RESOURCE before --")
	case n == len(args):
		return nil, nil, errors.New("expected RESOURCE… -- CMD ARGS…: names, and a command")
	case args[n] == "":
		return nil, nil, errors.New("CMD is empty: put a program after --")
	}
	return args[:n], args[n:], nil
}

// Validate checks what the flags' types cannot.
func (c *runCmd) Validate() error {
	names, _, err := c.split()
	if len(names) > 1 && (c.Slots != nil || c.Weight != nil || c.Shared || c.Exclusive) {
		return fmt.Errorf("several names are locked as mutexes, so --slots, --weight, --shared and --exclusive take one RESOURCE: "+
			"run one holdfast inside the other, such as holdfast run --shared %s -- holdfast run %s -- CMD", shellWord(names[0]), shellWord(names[1]))
	}
	return errors.Join(err, c.checkSlots(), c.check(c.Wait))
}

// Run runs the command under the lease.
func (c *runCmd) Run(e *env) error {
	names, cmd, err := c.split()
	if err != nil {
		return err
	}
	g := &guarded{guardFlags: c.guardFlags, verb: "run", Resource: names[0], Cmd: cmd, Nonblock: c.Nonblock, Wait: c.Wait, weight: c.weight(), shared: c.Shared}
	if len(names) > 1 {
		g.names, g.Resource = stringsOf(names), text(fmt.Sprintf("%s and %d more", names[0], len(names)-1))
	}
	on := func(s *session) lock { return c.lockFlags.on(s, stringsOf(names), time.Duration(c.TTL)) }
	return g.run(e, on, func(*supervision) bool { return false })
}
