package script

// MostRenewed is how many renewals fit into one call of RenewAll: enough to share
// its costs, and few enough to keep nobody waiting.
const MostRenewed = 64

// RenewAll makes one call of many that Renew has made, MostRenewed at most.
func (s *Set) RenewAll(calls []Call) Call {
	args := make([]any, 0, 3+3*len(calls))
	args = append(args, "evalsha", s.renewAll.sha, len(calls))
	for _, c := range calls {
		args = append(args, c.args[coreArg])
	}
	for _, c := range calls {
		args = append(args, c.args[firstArg], c.args[firstArg+1])
	}
	return Call{script: s.renewAll, args: args}
}

// ReadRenewed reads the reply of RenewAll to so many calls: whether each is done,
// or has to be made by itself. ok is false if the reply makes no sense.
func ReadRenewed(value any, calls int) (done []bool, ok bool) {
	list, ok := value.([]any)
	if !ok || len(list) != calls {
		return nil, false
	}
	done = make([]bool, calls)
	for i, v := range list {
		n, isNumber := v.(int64)
		if !isNumber {
			return nil, false
		}
		done[i] = n == 1
	}
	return done, true
}
