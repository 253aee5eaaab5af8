package command

import (
	"context"
	"fmt"
	"strings"
	"time"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/cmd/holdfast/internal/diagnosis"
	"github.com/holdfast-go/holdfast/cmd/holdfast/internal/doctor"
	"github.com/holdfast-go/holdfast/cmd/holdfast/internal/store"
)

// doctorCmd is `holdfast doctor`. The checks are package internal/doctor, and of other stores than Redis
// package internal/doctorstores.
type doctorCmd struct {
	URL []text `arg:"" optional:"" help:"Stores, as in --redis; several are a quorum. Default: --store or HOLDFAST_STORE."`

	TTL    span `name:"ttl" default:"15s" placeholder:"D" help:"The longest TTL in use; the checks compare round trips, failovers and restarts with it. Default: ${default}."`
	Strict bool `help:"Treat warnings as failures, with exit code 78."`
	Quiet  bool `short:"q" help:"Omit findings that are OK."`
	JSON   bool `help:"One JSON object; every finding with its values."`
}

// Help is the long text of --help.
func (*doctorCmd) Help() string {
	return `Checks every server of the URLs before you trust it with locks: whether it can be reached, and how fast it
responds; version, eviction, memory, persistence, replicas, cluster, Sentinels; whether the user has the rights
that Holdfast needs on --prefix; clocks, pauses, and the shortest sensible TTL. For a quorum also: whether a
majority responds, whether the nodes are independent, and what a restart forgets.

PostgreSQL, MySQL, SQLite, etcd, ZooKeeper: version, clock, what a crash and a failover forget (fsync, standbys,
members), schema, rights, wake-ups, dead rows and space, limits; and how long a lease takes to be acquired, handed
off and released.

It changes nothing, with one exception: where rights cannot be queried (Redis before 7, all other stores), it acquires and
releases leases of random names, which expire: on Redis within two minutes, elsewhere within ten. What a server does
not disclose, such as the configuration of managed services, is UNKNOWN and not a failure.

Exit codes:
	  0  nothing failed        69  a server that is needed does not respond
	 77  the user is refused, or lacks rights     78  a failure in the configuration (--strict: or a warning)

Examples:
	holdfast doctor
	holdfast doctor redis://10.0.0.1 redis://10.0.0.2 redis://10.0.0.3
	holdfast doctor --strict --ttl 60s redis+sentinel://10.0.0.1,10.0.0.2,10.0.0.3/main
	holdfast --store postgres://app@db/app doctor
	holdfast doctor --json | jq '.findings[] | select(.status == "FAIL")'`
}

// Validate checks what the flags' types cannot.
func (c *doctorCmd) Validate() error {
	if ttl := time.Duration(c.TTL); ttl < holdfast.MinTTL || ttl > holdfast.MaxTTL {
		return fmt.Errorf("--ttl needs a duration from %v to %v", holdfast.MinTTL, holdfast.MaxTTL)
	}
	return nil
}

// Run makes the checks and prints the findings.
func (c *doctorCmd) Run(e *env) error {
	url := e.url
	if len(c.URL) > 0 {
		url = strings.Join(stringsOf(c.URL), ",")
	}
	st, err := e.opener.Open(url)
	if err != nil {
		return err
	}
	defer st.Close()
	for _, n := range st.Nodes() {
		_, examines := n.(store.Examiner)
		if _, redis := n.(*store.RedisNode); !redis && !examines {
			return fail(exitConfig, "doctor cannot examine %s", n)
		}
	}
	// A bad prefix is the same error as in every verb.
	if _, err := holdfast.New(st.Engine(), holdfast.WithPrefix(e.prefix)); err != nil {
		return explain(err, st)
	}
	var report *diagnosis.Report
	if err := untilSignal(func(ctx context.Context) error {
		report = doctor.Examine(ctx, st, diagnosis.Options{Prefix: e.prefix, TTL: time.Duration(c.TTL)})
		return nil
	}); err != nil {
		return err
	}
	code := c.code(report)
	if c.JSON {
		err = writeJSON(e.stdout, jsonReport{report, time.Duration(c.TTL).String(), counts(report), code, jsonVersion})
	} else {
		err = c.print(e, report)
	}
	if err != nil {
		return err
	}
	return &exitError{code: code}
}

// code is the exit code.
func (c *doctorCmd) code(r *diagnosis.Report) int {
	switch r.Worst() {
	case diagnosis.Unreachable:
		return exitUnavailable
	case diagnosis.Denied:
		return exitDenied
	case diagnosis.Misconfig:
		return exitConfig
	}
	if c.Strict && r.Count(diagnosis.Warn) > 0 {
		return exitConfig
	}
	return exitOK
}

// jsonReport is what --json prints.
type jsonReport struct {
	*diagnosis.Report
	TTL    string                          `json:"ttl"`
	Counts map[diagnosis.FindingStatus]int `json:"counts"`
	Code   int                             `json:"exit_code"`

	Version int `json:"version"`
}

func counts(r *diagnosis.Report) map[diagnosis.FindingStatus]int {
	n := map[diagnosis.FindingStatus]int{}
	for _, s := range []diagnosis.FindingStatus{diagnosis.OK, diagnosis.Warn, diagnosis.Fail, diagnosis.Unknown} {
		n[s] = r.Count(s)
	}
	return n
}

func (c *doctorCmd) print(e *env, r *diagnosis.Report) error {
	fmt.Fprintf(e.stdout, "%s (prefix %q, TTL %s)\n\n", r.Store, r.Prefix, time.Duration(c.TTL))
	t := table(e.stdout, "STATUS\tCHECK\tWHERE\tFOUND")
	for _, f := range r.Merged() {
		if c.Quiet && f.Status == diagnosis.OK {
			continue
		}
		fmt.Fprintf(t, "%s\t%s\t%s\t%s\n", f.Status, f.Check, cell(f.Node), cell(f.Found))
		if f.Remedy != "" {
			fmt.Fprintf(t, "\t\t\t-> %s\n", cell(f.Remedy))
		}
	}
	if err := t.Flush(); err != nil {
		return err
	}
	n := counts(r)
	_, err := fmt.Fprintf(e.stdout, "\n%d OK, %d WARN, %d FAIL, %d UNKNOWN\n", n[diagnosis.OK], n[diagnosis.Warn], n[diagnosis.Fail], n[diagnosis.Unknown])
	return err
}
