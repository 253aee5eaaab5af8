package goredis

import "time"

// interest is a resource that the client waits for or holds. It is without a subscription, assigned
// to one, or confirmed there by the server. The clusterListener and the subscription have a set for
// each state, so that a change costs the same however many interests there are.
type interest struct {
	core      string
	until     time.Time
	on        *subscription // where it is subscribed; nil: nowhere yet
	confirmed bool          // the server confirmed it
	lost      bool          // it was confirmed once, and is not any more
}

// The mutex is held in all of the following.

// newInterest adds an interest without a subscription.
func (s *clusterListener) newInterest(core string) *interest {
	t := &interest{core: core}
	s.interests[core], s.homeless[core] = t, t
	return t
}

// assign moves an interest to a subscription that has yet to confirm it, or to none.
func (s *clusterListener) assign(t *interest, e *subscription) {
	delete(s.among(t), t.core)
	if t.confirmed {
		t.confirmed, t.lost = false, true
		s.lost++
	}
	t.on = e
	s.among(t)[t.core] = t
}

// confirm records that the subscription of an interest is confirmed.
func (s *clusterListener) confirm(t *interest) {
	delete(s.among(t), t.core)
	t.confirmed = true
	s.among(t)[t.core] = t
	s.found(t)
}

// remove ends an interest.
func (s *clusterListener) remove(t *interest) {
	delete(s.among(t), t.core)
	delete(s.interests, t.core)
	s.found(t)
}

// found ends that an interest is lost.
func (s *clusterListener) found(t *interest) {
	if t.lost {
		t.lost = false
		s.lost--
		s.back()
	}
}

// among returns the set that an interest is in.
func (s *clusterListener) among(t *interest) map[string]*interest {
	switch {
	case t.on == nil:
		return s.homeless
	case t.confirmed:
		return t.on.live
	}
	return t.on.asked
}
