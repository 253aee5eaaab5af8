package command

import (
	"fmt"
	"slices"
	"strings"
	"time"

	tea "charm.land/bubbletea/v2"
	"github.com/charmbracelet/x/ansi"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/internal/describe"
)

// topTable is the lines that ls or show print, and what each is about.
type topTable struct {
	head  string
	lines []string
	ids   []string // the names, of resourceTable
	found []holdfast.Snapshot
}

// add appends the lines that print prints after its header.
func (t *topTable) add(print func(*strings.Builder) error) {
	var b strings.Builder
	_ = print(&b) // a Builder returns no errors
	head, rest, _ := strings.Cut(b.String(), "\n")
	t.head = head
	for line := range strings.Lines(rest) {
		t.lines = append(t.lines, strings.TrimRight(line, " \n"))
	}
}

// resourceTable is the table of ls.
func resourceTable(all []holdfast.Snapshot) topTable {
	t := topTable{found: all}
	t.add(func(b *strings.Builder) error { return printResources(b, all) })
	for _, s := range all {
		t.ids = append(t.ids, s.Resource)
	}
	return t
}

// matching returns the table of those whose lines contain a text, in upper or lower case.
func (t topTable) matching(filter string) topTable {
	if filter == "" {
		return t
	}
	var found []holdfast.Snapshot
	for i, line := range t.lines {
		if strings.Contains(strings.ToLower(line), strings.ToLower(filter)) {
			found = append(found, t.found[i])
		}
	}
	return resourceTable(found)
}

// topCursor is where the cursor is: on an ID, or, if that is gone, on the line where it was.
type topCursor struct {
	id   string
	line int
}

// in returns the line of the cursor among those of ids.
func (c *topCursor) in(ids []string) int {
	if i := slices.Index(ids, c.id); i >= 0 {
		return i
	}
	return max(0, min(c.line, len(ids)-1))
}

// move moves the cursor by n lines.
func (c *topCursor) move(ids []string, n int) {
	if len(ids) > 0 {
		c.line = max(0, min(c.in(ids)+n, len(ids)-1))
		c.id = ids[c.line]
	}
}

// partiesOf are the IDs of the holders and the waiters of a resource.
func partiesOf(s holdfast.Snapshot) []string {
	var ids []string
	for _, h := range s.Holders {
		ids = append(ids, h.ID)
	}
	for _, w := range s.Waiters {
		ids = append(ids, w.ID)
	}
	return ids
}

// View implements tea.Model.
func (m *topModel) View() tea.View {
	lines, cursor := m.list()
	if m.open != "" {
		lines, cursor = m.detail()
	}
	frozen := 1 // the header stays
	if m.open != "" {
		frozen = 0
	}
	room := m.rows() + 1 - frozen
	first := frozen + max(0, min(cursor-frozen-room/2, len(lines)-frozen-room))
	screen := []string{m.fit(m.title()), ""}
	for i := range lines {
		if i >= frozen && (i < first || i >= first+room) {
			continue
		}
		line := ansi.Cut(lines[i], m.left, m.left+m.width)
		if i == cursor {
			line = ansi.NewStyle().Reverse(true).Styled(line + strings.Repeat(" ", max(0, m.width-ansi.StringWidth(line))))
		}
		screen = append(screen, line)
	}
	footer := m.footer()
	for len(screen) < m.height-len(footer) {
		screen = append(screen, "")
	}
	v := tea.NewView(strings.Join(append(screen[:min(len(screen), max(0, m.height-len(footer)))], footer...), "\n"))
	v.AltScreen, v.WindowTitle = true, "holdfast top"
	return v
}

// rows is how many lines of a list there is room for, below the title, an empty line and a header, and above the footer.
func (m *topModel) rows() int { return max(1, m.height-3-len(m.footer())) }

func (m *topModel) fit(line string) string { return ansi.Truncate(line, m.width, "…") }

// title is the first line: where, when and how many.
func (m *topModel) title() string {
	at := fmt.Sprintf("holdfast top  %s, prefix %q  ", describe.Text(m.s.at), m.e.prefix)
	switch {
	case m.failed != "" && m.readAt.IsZero():
		return "NO ANSWER: " + describe.Text(m.failed)
	case m.failed != "":
		return fmt.Sprintf("NO ANSWER since %s: %s", m.readAt.Format(time.TimeOnly), describe.Text(m.failed))
	case m.readAt.IsZero():
		return at + "reading"
	}
	at += m.readAt.Format(time.TimeOnly)
	if m.open != "" {
		return at
	}
	leases, waits, unknown := 0, 0, ""
	for _, s := range m.shown.found {
		leases, waits = leases+len(s.Holders), waits+len(s.Waiters)
		if s.NoWaiters {
			unknown = " (a quorum shows none)"
		}
	}
	return at + fmt.Sprintf("  resources %d, leases %d, waiters %d%s, by %s", len(m.shown.found), leases, waits, unknown, m.sort)
}

// list returns the lines of the list, the header first, and which has the cursor.
func (m *topModel) list() ([]string, int) {
	switch {
	case m.readAt.IsZero():
		return []string{""}, -1
	case len(m.shown.lines) == 0 && m.filter != "":
		return []string{fmt.Sprintf("no resource of %d contains %q", len(m.all), m.filter)}, -1
	case len(m.shown.lines) == 0:
		return []string{fmt.Sprintf("no resource in use matches %q (prefix %q)", m.c.Pattern, m.e.prefix)}, -1
	}
	return append([]string{m.shown.head}, m.shown.lines...), 1 + m.resource.in(m.shown.ids)
}

// detail returns the lines of the open resource, as show prints them, and which has the cursor.
func (m *topModel) detail() ([]string, int) {
	if !m.known {
		return []string{describe.Text(m.open)}, -1
	}
	var b strings.Builder
	_ = printMark(&b, m.one)
	lines := strings.Split(strings.TrimSuffix(b.String(), "\n"), "\n")
	if b.Len() == 0 {
		lines = nil
	}
	if len(m.one.Holders) == 0 && len(m.one.Waiters) == 0 {
		return append(lines, fmt.Sprintf("%q is not held", m.open), m.waitersInWords()), -1
	}
	lines = append(lines, heading(m.one), "")
	at := m.party.in(partiesOf(m.one))
	var holders, waiters topTable
	holders.add(func(b *strings.Builder) error { return printHolders(b, m.one) })
	cursor := len(lines) + 1 + at
	lines = append(append(lines, holders.head), holders.lines...)
	if at >= len(m.one.Holders) {
		cursor = len(lines) + 2 + at - len(m.one.Holders)
	}
	if len(m.one.Waiters) == 0 {
		return append(lines, "", m.waitersInWords()), cursor
	}
	waiters.add(func(b *strings.Builder) error { return printWaiters(b, m.one) })
	return append(append(lines, "", waiters.head), waiters.lines...), cursor
}

func (m *topModel) waitersInWords() string {
	if m.one.NoWaiters {
		return waitersUnknown
	}
	return "Nobody waits."
}

// footer is the last lines: a question or an answer in full, or the keys as far as there is room.
func (m *topModel) footer() []string {
	if text := m.prompt(); text != "" {
		return strings.Split(ansi.Hardwrap(text, m.width, true), "\n")
	}
	switch {
	case m.open != "":
		return []string{m.fit("up, down choose   b break   left, right scroll   Esc back   q end")}
	case m.filter != "":
		return []string{m.fit(fmt.Sprintf("filter %q   / change it   Esc show all   s sort   Enter open   q end", m.filter))}
	}
	return []string{m.fit("up, down choose   Enter open   / filter   s sort   left, right scroll   q end")}
}

// prompt is a question or an answer, if there is one.
func (m *topModel) prompt() string {
	switch {
	case m.mode == topFilters:
		return "filter: " + describe.Text(m.filter) + "_"
	case m.mode == topReasons:
		return "reason of the break (Enter: go on, Esc: break nothing): " + describe.Text(m.reason) + "_"
	case m.mode == topConfirms:
		return "break " + m.breaking.words + "? [y/N]"
	}
	return describe.Text(m.said)
}
