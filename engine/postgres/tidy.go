package postgres

import (
	"context"
	"encoding/binary"

	"github.com/holdfast-go/holdfast/engine/cas"
)

const (
	// tidyEvery is how many changes of this process are between two clean-ups, and tidyPortion
	// how many documents one of them looks at: more than were changed, so they keep up.
	tidyEvery   = 64
	tidyPortion = 4 * tidyEvery
)

// tidySQL deletes those of the next documents whose time is over. It passes over those that are
// being changed.
const tidySQL = `WITH page AS MATERIALIZED (
	SELECT ctid AS at, space, prefix, name FROM DOC WHERE (space, prefix, name) > ($1, $2, $3) ORDER BY space, prefix, name LIMIT $4
), gone AS (
	DELETE FROM DOC WHERE ctid = ANY (ARRAY(
		SELECT d.ctid FROM DOC AS d JOIN page ON d.ctid = page.at WHERE d.keep_until < clock_timestamp() FOR UPDATE OF d SKIP LOCKED
	)) AND keep_until < clock_timestamp()
) SELECT space, prefix, name, (SELECT count(*) FROM page) FROM page ORDER BY space DESC, prefix DESC, name DESC LIMIT 1`

// tidyNowAndThen deletes old documents after every tidyEvery-th change, in the background.
func (s *documents) tidyNowAndThen(changes int) {
	n := s.swaps.Add(uint64(changes))
	if n/tidyEvery == (n-uint64(changes))/tidyEvery || !s.tidying.CompareAndSwap(false, true) {
		return
	}
	go func() {
		defer s.tidying.Store(false)
		s.tidyPage()
	}()
}

// tidyPage looks at the documents after those that it looked at last. If it fails, the next one
// begins again.
func (s *documents) tidyPage() {
	ctx, cancel := context.WithTimeout(context.Background(), callTimeout)
	defer cancel()
	from := s.tidyFrom
	s.tidyFrom = cas.Key{}
	results, err := s.run(ctx, &transaction{relaxed: true, queries: []query{{s.tidy, append(keyArgs(from), int8Arg(tidyPortion))}}})
	if err != nil || len(results[0].Rows) == 0 {
		return
	}
	if row := results[0].Rows[0]; binary.BigEndian.Uint64(row[3]) == tidyPortion { // there may be more
		s.tidyFrom = cas.Key{Space: cas.Space(row[0][0]), Prefix: string(row[1]), Name: string(row[2])}
	}
}
