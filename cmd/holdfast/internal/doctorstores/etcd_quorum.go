package doctorstores

import (
	"fmt"
	"slices"
	"strings"

	"github.com/holdfast-go/holdfast/cmd/holdfast/internal/diagnosis"
)

// quorum checks that a majority of the members answers, and that another one may fail.
func (e *etcd) quorum() {
	for _, m := range e.members {
		if m.trouble != nil {
			e.check("quorum").At(m.Place).Warn("start it, or correct its address in the URL, and allow connections to it", "the member does not answer: %s", diagnosis.OneLine(m.trouble))
		}
	}
	up := e.answered()
	if len(up) == 0 || e.listed == nil {
		return // reach reports it
	}
	if e.apart(up) {
		return
	}
	voters, answering, named, learners, idle := 0, 0, 0, []string{}, []string{}
	for _, listed := range e.listed.Members {
		m := e.memberOf(listed.ID)
		switch {
		case listed.IsLearner:
			learners = append(learners, memberName(listed.Name, listed.ID))
			continue
		case listed.Name == "":
			idle = append(idle, memberName("", listed.ID))
		}
		voters++
		if m != nil {
			answering++
		}
		if m != nil && m.named || m == nil && e.asked(listed.ClientURLs) {
			named++
		}
	}
	need := voters/2 + 1
	c := e.check("quorum").With("members", voters).With("answering", answering).With("majority", need)
	switch {
	case !slices.ContainsFunc(up, func(m *etcdMember) bool { return m.status.Leader != 0 }):
		c.FailAs(diagnosis.Unreachable, "bring members back: nothing can be locked", "no leader: %d of %d members answer, %d are needed", answering, voters, need)
	case answering < need:
		c.FailAs(diagnosis.Unreachable, "bring members back, or allow connections to them", "%d of %d members answer, %d are needed", answering, voters, need)
	case answering == need && answering < voters:
		c.Warn("bring the others back", "%d of %d members answer: no other may fail", answering, voters)
	}
	c.WarnIf(voters%2 == 0, "use 3 or 5 members", "%d members tolerate no more failures than %d would", voters, voters-1)
	c.WarnIf(named < voters, "name all members in the URL", "the URL names %d of %d members: a client cannot go to the others", named, voters)
	c.WarnIf(len(idle) > 0, "start it, or remove it (etcdctl member remove)", "a member was added and has not been started: %s", strings.Join(idle, ", "))
	for _, m := range up {
		c.At(m.Place).WarnIf(m.status.IsLearner && m.named, "promote it (etcdctl member promote), or take it out of the URL", "a learner, which serves no locks")
	}
	e.lag(up)
	if voters == 1 {
		c.Otherwise("one member: while it is away no lease is granted")
		return
	}
	c.Otherwise("%d of %d members answer, %d are needed; learners: %d", answering, voters, need, len(learners))
}

// apart checks that the endpoints are of one etcd.
func (e *etcd) apart(up []*etcdMember) bool {
	for _, m := range up[1:] {
		if m.status.Header.ClusterId != up[0].status.Header.ClusterId {
			e.check("quorum").Fail("give the members of one etcd in a URL; of several in several URLs, with commas between them", "%s and %s are members of different etcds: both grant", up[0].Place, m.Place)
			return true
		}
	}
	return false
}

// manyEntries is how many entries of the log a member may be behind without a warning.
const manyEntries = 5000

// lag checks that no member is far behind.
func (e *etcd) lag(up []*etcdMember) {
	highest := uint64(0)
	for _, m := range up {
		highest = max(highest, m.status.RaftAppliedIndex)
	}
	for _, m := range up {
		if behind := highest - m.status.RaftAppliedIndex; behind > manyEntries {
			e.check("quorum").At(m.Place).With("entries_behind", behind).Warn("check its disk and its network", "the member is %d entries behind", behind)
		}
	}
}

func memberName(name string, id uint64) string {
	if name == "" {
		return fmt.Sprintf("%x", id)
	}
	return name
}
