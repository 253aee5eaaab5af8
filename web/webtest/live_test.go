package webtest

import (
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/chromedp/chromedp"

	"github.com/holdfast-go/holdfast/internal/redistest"
)

// stamp makes a page note when each resource is in its list first, by the clock of the machine.
const stamp = `(() => {
	window.seen = {};
	new MutationObserver(() => {
		for (const a of document.querySelectorAll("td.name a")) window.seen[a.textContent] ??= Date.now();
	}).observe(document.getElementById("live"), {subtree: true, childList: true, characterData: true});
	return true;
})()`

// A page follows the store without being loaded again, and keeps what is selected and focused. A change is
// in the page within two seconds, by the median of five, each of which is made just after a reading. It is not
// parallel, so that no other page takes the browser's time.
func TestLive(t *testing.T) {
	s := newSite(t)
	s.lock("stock:42")
	b := newTab(t)
	b.open(s.url)
	b.shows("stock:42")
	b.await(`!document.getElementById("pause").hidden`)
	eval[bool](b, stamp)
	b.do(chromedp.KeyEvent("j"))
	focused := `document.activeElement.textContent === "stock:42"`
	b.await(focused)
	stalls := redistest.WatchStalls(t)
	var took []time.Duration
	for i := range 5 {
		name := fmt.Sprintf("a new one %d", i)
		l := s.lock(name)
		locked := time.Now()
		b.await(`window.seen[` + quoted(name) + `] !== undefined`)
		at := time.UnixMilli(eval[int64](b, `window.seen[`+quoted(name)+`]`))
		took = append(took, at.Sub(locked)-stalls.Between(locked, at))
		if err := l.Release(t.Context()); err != nil {
			t.Fatal(err)
		}
		b.lacks(name)
	}
	slices.Sort(took)
	t.Logf("grants were in the page after %v", took)
	if took[2] > 2*time.Second {
		t.Errorf("the median is %v, want at most 2s", took[2])
	}
	if !eval[bool](b, `window.seen !== undefined && `+focused) {
		t.Error("the page was loaded again, or has lost the focus")
	}
	b.click("td.name a")
	b.await(`location.pathname === "` + prefix + `resource"`)
	b.shows("Holder ID")
}

// The keys lead from row to row, and what is folded out stays so when the page changes.
func TestKeysAndFolds(t *testing.T) {
	t.Parallel()
	s := newSite(t)
	for i := range 4 {
		s.lock(fmt.Sprintf("order:%d", i))
	}
	b := newTab(t)
	b.open(s.url + "?sort=name")
	b.shows("order:3")
	b.await(`!document.getElementById("pause").hidden`)
	for _, step := range []struct{ key, row string }{{"j", "order:0"}, {"j", "order:1"}, {"k", "order:0"}, {"k", "order:0"}} {
		b.do(chromedp.KeyEvent(step.key))
		b.await(`document.activeElement.textContent === ` + quoted(step.row))
	}
	b.open(s.url + "clients")
	b.shows("and 1 more")
	b.await(`!document.getElementById("pause").hidden`)
	b.lacks("order:3")
	b.click("summary")
	b.shows("order:3")
	s.lock("order:4")
	b.shows("and 2 more")
	b.shows("order:4")
}
