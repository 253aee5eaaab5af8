package command

import (
	"context"
	"errors"
	"strings"
	"syscall"
	"time"
	"unicode/utf8"

	tea "charm.land/bubbletea/v2"

	"github.com/holdfast-go/holdfast"
)

// topMode is what the keys of top mean.
type topMode int

const (
	topMoves    topMode = iota // they move about
	topFilters                 // they write the filter
	topReasons                 // they write the reason of a break
	topConfirms                // y breaks
)

// topOrders are the values of --sort, in the order of the key s.
var topOrders = [...]string{"waiters", "held", "ttl", "name"}

// topModel is the state of top. It is used by the loop of the terminal alone; what reads the store or
// breaks is a tea.Cmd, whose result is a message.
type topModel struct {
	ctx context.Context
	e   *env
	s   *session
	c   *topCmd

	width, height int
	mode          topMode
	sort, filter  string
	left          int    // columns that are scrolled out
	open          string // the resource that is shown; "": the list
	reading       int    // number of the latest reading; the results of others are too old

	all    []holdfast.Snapshot // of the latest reading of the list
	one    holdfast.Snapshot   // of the latest reading of the open resource
	known  bool                // it was read
	readAt time.Time           // when, by this machine's clock; zero: never
	failed string              // why the readings since then failed
	listed topTable            // all of them
	shown  topTable            // those that the filter lets through

	resource, party topCursor // in the list, and in the open resource
	breaking        target
	reason          string
	said            string // answer to the latest key
	ended           error  // of the program
}

// topRead is the result of a reading.
type topRead struct {
	number int
	all    []holdfast.Snapshot
	one    holdfast.Snapshot
	took   time.Duration
	failed string
}

// topAgain begins a reading.
type topAgain struct{ number int }

// topBroke is the result of a break.
type topBroke struct{ said string }

func newTop(ctx context.Context, e *env, s *session, c *topCmd) *topModel {
	return &topModel{ctx: ctx, e: e, s: s, c: c, sort: c.Sort, reason: string(c.Reason)}
}

// Init implements tea.Model.
func (m *topModel) Init() tea.Cmd { return m.read() }

// read begins a reading of what is shown, in place of any that is under way.
func (m *topModel) read() tea.Cmd {
	m.reading++
	number, open := m.reading, m.open
	return func() tea.Msg {
		began := time.Now()
		r := topRead{number: number}
		var err error
		if open == "" {
			r.all, err = m.c.read(m.ctx, m.s)
		} else {
			ctx, cancel := context.WithTimeout(m.ctx, requestTimeout)
			defer cancel()
			r.one, err = m.s.Snapshot(ctx, open)
		}
		if err != nil {
			r.failed = m.s.explain(err).text
		}
		r.took = time.Since(began)
		return r
	}
}

// Update implements tea.Model.
func (m *topModel) Update(msg tea.Msg) (tea.Model, tea.Cmd) {
	var next tea.Cmd
	switch msg := msg.(type) {
	case tea.WindowSizeMsg:
		m.width, m.height = msg.Width, msg.Height
	case topAgain:
		if msg.number == m.reading {
			next = m.read()
		}
	case topRead:
		next = m.take(msg)
	case topBroke:
		m.said, next = msg.said, m.read()
	case tea.PasteMsg:
		m.write(msg.Content)
	case tea.KeyPressMsg:
		next = m.press(msg)
	}
	return m, next
}

// take takes the result of a reading and plans the next one.
func (m *topModel) take(r topRead) tea.Cmd {
	if r.number != m.reading {
		return nil
	}
	m.failed = r.failed
	switch {
	case r.failed != "":
	case m.open == "":
		m.all, m.readAt = r.all, time.Now()
		m.arrange()
	default:
		m.one, m.known, m.readAt = r.one, true, time.Now()
		m.party.line = m.party.in(partiesOf(m.one))
	}
	pause := time.Duration(m.c.Every)
	if r.failed == "" {
		pause = max(pause, 4*r.took)
	}
	return tea.Tick(pause, func(time.Time) tea.Msg { return topAgain{r.number} })
}

// arrange sorts and filters what was read.
func (m *topModel) arrange() {
	sortBy(m.sort, m.all)
	m.listed = resourceTable(m.all)
	m.sift()
}

// sift filters what was read.
func (m *topModel) sift() {
	m.shown = m.listed.matching(m.filter)
	m.resource.line = m.resource.in(m.shown.ids)
}

// press is called for a key.
func (m *topModel) press(key tea.KeyPressMsg) tea.Cmd {
	m.said = ""
	switch key.String() {
	case "ctrl+c":
		m.ended = &signalled{syscall.SIGINT}
		return tea.Quit
	case "ctrl+z":
		return tea.Suspend
	}
	switch m.mode {
	case topFilters, topReasons:
		return m.pressInText(key)
	case topConfirms:
		m.mode = topMoves
		if key.String() == "y" || key.String() == "Y" {
			return m.end()
		}
		m.said = "nothing was broken"
		return nil
	}
	return m.pressInView(key.String())
}

// pressInView is called for a key that moves about.
func (m *topModel) pressInView(key string) tea.Cmd {
	switch key {
	case "q":
		return tea.Quit
	case "up", "k":
		m.move(-1)
	case "down", "j":
		m.move(1)
	case "pgup":
		m.move(-m.rows())
	case "pgdown", "space":
		m.move(m.rows())
	case "home", "g":
		m.move(-1 << 30)
	case "end", "G":
		m.move(1 << 30)
	case "left", "h":
		m.left = max(0, m.left-8)
	case "right", "l":
		m.left += 8
	case "esc", "backspace":
		return m.back()
	case "enter":
		return m.enter()
	case "/":
		if m.open == "" {
			m.mode = topFilters
		}
	case "s":
		if m.open == "" {
			m.reorder()
		}
	case "b":
		if m.open != "" {
			m.ask()
		}
	}
	return nil
}

// reorder changes to the next order.
func (m *topModel) reorder() {
	for i, by := range topOrders {
		if by == m.sort {
			m.sort = topOrders[(i+1)%len(topOrders)]
			break
		}
	}
	m.arrange()
}

// enter opens the resource of the cursor.
func (m *topModel) enter() tea.Cmd {
	if m.open != "" || len(m.shown.ids) == 0 {
		return nil
	}
	m.resource.move(m.shown.ids, 0)
	m.open, m.party, m.left, m.known, m.failed = m.resource.id, topCursor{}, 0, false, ""
	return m.read()
}

// back leaves the open resource, or the filter.
func (m *topModel) back() tea.Cmd {
	if m.open == "" {
		m.filter = ""
		m.sift()
		return nil
	}
	m.open, m.left, m.failed = "", 0, ""
	return m.read()
}

// move moves the cursor by n lines.
func (m *topModel) move(n int) {
	if m.open == "" {
		m.resource.move(m.shown.ids, n)
	} else {
		m.party.move(partiesOf(m.one), n)
	}
}

// ask begins a break of the party of the cursor: with its reason.
func (m *topModel) ask() {
	m.party.move(partiesOf(m.one), 0)
	if words := partyInWords(m.one, m.party.id); words != "" {
		m.breaking, m.mode = target{resource: m.open, id: m.party.id, words: words}, topReasons
	}
}

// end breaks what was asked for.
func (m *topModel) end() tea.Cmd {
	t, how := m.breaking, breakCmd{Reason: text(m.reason)}
	return func() tea.Msg {
		err := how.end(m.s, t)
		switch {
		case errors.Is(err, holdfast.ErrNotHeld):
			return topBroke{nothing(m.e, t).Error()}
		case err != nil:
			return topBroke{"nothing is known to be broken: " + m.s.explain(err).text}
		}
		return topBroke{broken(t)}
	}
}

// pressInText is called for a key of a text that is being written.
func (m *topModel) pressInText(key tea.KeyPressMsg) tea.Cmd {
	text := m.written()
	switch key.String() {
	case "enter":
		if m.mode == topReasons {
			m.mode = topConfirms
			return nil
		}
		m.mode = topMoves
	case "esc":
		if m.mode == topReasons {
			m.said = "nothing was broken"
		}
		m.mode = topMoves
	case "backspace":
		_, n := utf8.DecodeLastRuneInString(*text)
		*text = (*text)[:len(*text)-n]
	case "ctrl+u":
		*text = ""
	default:
		m.write(key.Text)
	}
	m.sift()
	return nil
}

// written is the text that is being written.
func (m *topModel) written() *string {
	if m.mode == topReasons {
		return &m.reason
	}
	return &m.filter
}

// write appends to the text that is being written, if there is one.
func (m *topModel) write(what string) {
	if m.mode == topFilters || m.mode == topReasons {
		*m.written() += strings.ToValidUTF8(what, "")
		m.sift()
	}
}
