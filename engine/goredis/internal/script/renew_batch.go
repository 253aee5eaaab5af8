package script

import "time"

// MaxRenewed is how many renewals fit into one call of RenewBatch: enough to share
// its costs, and few enough to keep nobody waiting.
const MaxRenewed = 64

// RenewBatch makes one call that extends leases by their cores, MaxRenewed at most,
// which must not change any more. ids are their holder IDs with spaces between:
// none of them may be empty or have a space in it.
func (s *Set) RenewBatch(ttl time.Duration, cores []string, ids string) Call {
	args := make([]any, 0, coreArg+len(cores)+2)
	args = append(args, "evalsha", s.renewBatch.sha, len(cores), cores[0]) // see Key
	for i := range cores[1:] {
		args = append(args, &cores[1+i]) // to point to a string costs nothing
	}
	return Call{script: s.renewBatch, args: append(args, s.spans.of(ttl.Microseconds()), ids)}
}

// ReadRenewed reads the reply of RenewBatch to so many leases: the indexes of those
// for which Renew has to be asked. ok is false if the reply makes no sense.
func ReadRenewed(value any, leases int) (others []int, ok bool) {
	if n, isNumber := value.(int64); isNumber {
		return nil, n == 0
	}
	list, ok := value.([]any)
	if !ok {
		return nil, false
	}
	for _, v := range list {
		place, isNumber := v.(int64)
		if !isNumber || place < 1 || place > int64(leases) {
			return nil, false
		}
		others = append(others, int(place-1))
	}
	return others, true
}
