package quorum

import (
	"testing"

	"github.com/holdfast-go/holdfast/engine"
)

// The ballot rule, exhaustively: two clients propose tokens to three nodes, requests
// arrive in any order, and any node's lease may end at any moment. No two majorities
// may ever grant one token. And a token that is granted in time, that is, before any
// lease of its ballot has ended, must be above all that were granted before; one that is
// granted later is not used, since its trust window is closed, and a fence would
// refuse it.

const (
	ballotNodes   = 3
	ballotClients = 2
	topToken      = 3
)

// ballotState is one state of the search. It is comparable.
type ballotState struct {
	last    [ballotNodes]uint8 // highest token given
	held    [ballotNodes]uint8 // 1 + the client that holds; 0: free
	client  [ballotClients]clientBallot
	granted uint8 // highest token that a majority granted
	used    uint8 // a bit for each token that a majority granted
}

// clientBallot is the ballot of one client.
type clientBallot struct {
	token uint8 // 0: nothing
	seen  uint8 // highest token seen
	vote  [ballotNodes]uint8
	late  bool // a lease of it has ended
}

// What a node answered to a ballot.
const (
	notYet uint8 = iota
	yes
	occupied
	tooLow
)

func (c clientBallot) votes() []vote {
	votes := make([]vote, ballotNodes)
	for i, v := range c.vote {
		votes[i] = vote{answered: v != notYet, ans: engine.Answer{Status: map[uint8]engine.Status{
			yes: engine.Granted, occupied: engine.Busy, tooLow: engine.Outbid,
		}[v]}}
	}
	return votes
}

// steps returns the states that may follow, and whether one violates the rule.
func (s ballotState) steps(node func(last, token uint8) bool) (next []ballotState, wrong bool) {
	for i := range s.held {
		if s.held[i] != 0 {
			n := s
			n.held[i] = 0 // its lease ends, or is withdrawn
			if ballot := &n.client[s.held[i]-1]; ballot.token != 0 && ballot.vote[i] == yes {
				ballot.late = true
			}
			next = append(next, n)
		}
	}
	for c, ballot := range s.client {
		if ballot.token == 0 {
			for t := ballot.seen + 1; t <= topToken; t++ { // clocks differ
				n := s
				n.client[c] = clientBallot{token: t, seen: t}
				next = append(next, n)
			}
			continue
		}
		for i, v := range ballot.vote {
			if v != notYet {
				continue
			}
			n := s
			n.arrive(c, i, node)
			decided := decide(n.client[c].votes(), ballotNodes/2+1)
			if decided == granted {
				if n.used&(1<<ballot.token) != 0 || !ballot.late && ballot.token <= n.granted {
					wrong = true
				}
				n.used |= 1 << ballot.token
				n.granted = max(n.granted, ballot.token)
			}
			if decided >= granted {
				n.client[c] = clientBallot{seen: n.client[c].seen}
			}
			next = append(next, n)
		}
	}
	return next, wrong
}

// arrive is a request that reaches a node.
func (s *ballotState) arrive(client, node int, takes func(last, token uint8) bool) {
	ballot := &s.client[client]
	switch {
	case s.held[node] != 0:
		ballot.vote[node] = occupied
	case !takes(s.last[node], ballot.token):
		ballot.vote[node] = tooLow
		ballot.seen = max(ballot.seen, s.last[node])
	default:
		ballot.vote[node] = yes
		s.last[node] = ballot.token
		s.held[node] = uint8(client + 1)
	}
}

// search visits every state and returns their number. It stops at the first wrong one.
func search(takes func(last, token uint8) bool) (states int, wrong bool) {
	seen := map[ballotState]bool{{}: true}
	open := []ballotState{{}}
	for len(open) > 0 {
		s := open[len(open)-1]
		open = open[:len(open)-1]
		next, bad := s.steps(takes)
		if bad {
			return len(seen), true
		}
		for _, n := range next {
			if !seen[n] {
				seen[n] = true
				open = append(open, n)
			}
		}
	}
	return len(seen), false
}

func TestBallotsGrow(t *testing.T) {
	states, wrong := search(func(last, token uint8) bool { return token > last })
	t.Logf("%d states", states)
	if wrong || states < 10_000 {
		t.Errorf("wrong: %v, after %d states", wrong, states)
	}
	if _, wrong := search(func(last, token uint8) bool { return token >= last }); !wrong {
		t.Error("nodes that take a token twice are not found out")
	}
}

func sized(n int) *Engine { return &Engine{nodes: make([]*node, n), majority: n/2 + 1} }

// However holders are distributed over the nodes, each of which enforces the capacity, no more than
// the capacity is held; and no smaller number of votes is enough.
func TestVotesNeededKeepTheCapacity(t *testing.T) {
	for n := 1; n <= 9; n++ {
		e := sized(n)
		for capacity := 1; capacity <= 20; capacity++ {
			need := e.votesNeeded(engine.KindSemaphore, capacity)
			if most := n * capacity / need; most > capacity || need > n {
				t.Errorf("%d nodes, capacity %d, %d needed: %d can be held", n, capacity, need, most)
			}
			if less := need - 1; less >= e.majority && n*capacity/less <= capacity {
				t.Errorf("%d nodes, capacity %d: %d needed, %d would do", n, capacity, need, less)
			}
		}
		for _, kind := range []engine.Kind{engine.KindMutex, engine.KindElection, engine.KindJob} {
			if need := e.votesNeeded(kind, 1); need != n/2+1 {
				t.Errorf("%d nodes, %s: %d needed", n, kind, need)
			}
		}
		if need := e.votesNeeded(engine.KindRW, 1<<20); need != n/2+1 {
			t.Errorf("%d nodes, readers: %d needed", n, need)
		}
		if need := e.votesNeeded(engine.KindLatch, 1<<17+1); need != n/2+1 {
			t.Errorf("%d nodes, a latch: %d needed", n, need)
		}
	}
}
