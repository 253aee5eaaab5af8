package main

import (
	"errors"
	"time"
)

// runCmd is `holdfast run`.
type runCmd struct {
	Resource text   `arg:"" help:"Name of what is locked, like stock:42."`
	Cmd      []text `arg:"" name:"cmd" help:"Command and its arguments, after --."`

	lockFlags
	guardFlags
}

// Help is the long text of --help.
func (*runCmd) Help() string {
	return `CMD runs in a process group of its own while holdfast holds and renews the lease. INT, TERM, HUP,
QUIT, USR1 and USR2 are passed on to the group. The lease is given back when the whole group has ended,
background processes included; a program that must not count leaves the group with setsid.
If the lease cannot be renewed, the group gets TERM and then KILL in time before anybody else can get the
resource, also when holdfast itself is killed or stopped. That begins when a third of the TTL is left: a
longer --ttl rides out longer outages of the store. CMD finds HOLDFAST_RESOURCE, HOLDFAST_TOKEN (the
fencing token: give it along with every write), HOLDFAST_HOLDER and HOLDFAST_TTL_MS in its environment.

Without a flag that says otherwise one command runs at a time. --slots N lets N run at once. --shared lets any
number run at once, while --exclusive on the same resource keeps all of these out and runs alone; they enter in
the order in which they came, so --shared ones never keep an --exclusive one waiting for ever. A resource in use
in one of these three ways (plain, --slots N, --shared and --exclusive) cannot be used in another: exit 78.

Exit codes: CMD's own, or
	 75  not acquired: held and -n, or -w ran out   (-E N: N instead)
	 79  the lease was lost and CMD was stopped in time
	124  --timeout was hit      137  and KILL was needed
	128+N  CMD died of signal N, or a wait was ended by it
	125  holdfast failed        126  CMD cannot be executed     127  CMD not found
	 64  usage     69  store unreachable     77  store refuses user or rights     78  bad configuration

Examples:
	holdfast run nightly-report -- ./report.sh --full
	holdfast run -n cache-warmup -- ./warm.sh || echo "somebody else is at it"
	holdfast run -w 5m --reason "release 4.2" deploy:prod -- sh -c 'build && ship'
	holdfast run --slots 4 transcode -- ./transcode.sh film.mkv
	holdfast run --shared catalogue -- ./export.sh
	holdfast run --exclusive catalogue -- ./rebuild.sh
	holdfast run --ttl 5s --timeout 1h -s INT import -- ./import < data.csv`
}

// Validate checks what the flags' types cannot.
func (c *runCmd) Validate() error {
	switch {
	case len(c.Cmd) == 0:
		return nil // kong says so itself, after this
	case c.Cmd[0] == "":
		return errors.New("CMD is empty: name a program after --")
	}
	return errors.Join(c.checkSlots(), c.check(c.Wait))
}

// Run takes the lease, runs the command under it and gives the lease back.
func (c *runCmd) Run(e *env) error {
	g := &guarded{guardFlags: c.guardFlags, verb: "run", Resource: c.Resource, Cmd: c.Cmd, Nonblock: c.Nonblock, Wait: c.Wait}
	on := func(s *session) lock { return c.lockFlags.on(s, string(c.Resource), time.Duration(c.TTL)) }
	return g.run(e, on, func(*watching) bool { return false })
}
