package script

import "time"

// MaxRenewed is how many renewals fit into one call of RenewBatch: enough to share its costs, and
// few enough not to block Redis for long.
const MaxRenewed = 64

// RenewBatch makes one call that extends the leases with these cores, at most MaxRenewed. The call
// keeps cores, which must not be changed afterwards. ids are their holder IDs, separated by spaces:
// no ID may be empty or contain a space.
func (s *Set) RenewBatch(ttl time.Duration, cores []string, ids string) Call {
	args := make([]any, 0, coreArg+len(cores)+2)
	args = append(args, "evalsha", s.renewBatch.sha(), len(cores), cores[0]) // see Key
	for i := range cores[1:] {
		args = append(args, &cores[1+i]) // a pointer to a string is not allocated
	}
	return Call{script: s.renewBatch, args: append(args, ttl.Microseconds(), ids)}
}

// ReadRenewed reads the reply of RenewBatch for n leases: the indexes of those that must be renewed
// by Renew. ok is false if the reply is malformed.
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
