package mutant

// histories are bugs of the history that clients record in the store.
func histories() (all []Mutant) {
	for _, m := range []Mutant{
		{Name: "the history leaves out losses", Patches: []Patch{
			{"	if r != nil {\n		r.add(historyText{Event: HistoryLost,", "	if r != nil && r.keep < 0 {\n		r.add(historyText{Event: HistoryLost,"}}},
		{Name: "the history has a hand-off twice", Patches: []Patch{
			{"	case e.HandOff == HandOffTicket:\n		text.Event = HistoryDetached\n	}\n", "	case e.HandOff == HandOffProcess:\n		r.add(text, l)\n	}\n"}}},
		{Name: "the history leaves out waits that ended without a lease", Patches: []Patch{
			{"	case wait:\n", "	case wait && r.keep < 0:\n"}}},
		{Name: "the history leaves out grants", Patches: []Patch{
			{"	case l != nil && l.Err() != nil:", "	case l != nil:"}}},
		{Name: "the history leaves out breaks", Patches: []Patch{
			{"	if r != nil {\n		r.add(historyText{Event: HistoryBroke,", "	if r != nil && r.keep < 0 {\n		r.add(historyText{Event: HistoryBroke,"}}},
		{Name: "a lease of the history was held for twice as long", Patches: []Patch{
			{"Token: e.Token, Held: e.Held.Microseconds()}", "Token: e.Token, Held: 2 * e.Held.Microseconds()}"}}},
		{Name: "the history is written after two seconds", Patches: []Patch{ // only clients that are killed do not write it at last
			{"historyGather  = 200 * time.Millisecond", "historyGather  = 2000 * time.Millisecond"}}},
	} {
		m.File, m.World, m.Checks = "history_recorder.go", Live, []string{"history"}
		all = append(all, m)
	}
	return all
}
