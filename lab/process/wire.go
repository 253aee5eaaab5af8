// Package process runs clients of a subject in processes of their own, so that
// they can be stopped and killed like any process. The lab talks to a process by
// lines of JSON on its standard input and output; to its users, it is a
// subject.Client like those in its own process, points included.
package process

import (
	"encoding/json"
	"errors"
	"fmt"
	"time"

	"github.com/holdfast-go/holdfast/lab/subject"
)

// Spec says which client a process makes.
type Spec struct {
	Subject string        `json:"subject"` // its ID
	Client  string        `json:"client"`
	Nodes   []string      `json:"nodes"` // addresses
	TTL     time.Duration `json:"ttl"`
	Retry   time.Duration `json:"retry,omitempty"`
	Points  bool          `json:"points,omitempty"` // the client reports its points and waits
	Steps   bool          `json:"steps,omitempty"`  // whether its wall clock may be stepped
}

// The calls of a line to the process.
const (
	callOpen    = "open"
	callClose   = "close"
	callAcquire = "acquire"
	callTry     = "try"
	callErr     = "err"
	callUntil   = "until"
	callRenew   = "renew"
	callRelease = "release"
	callCancel  = "cancel" // of the call with the same ID; has no answer
	callGo      = "go"     // the answer to a point with the same ID
	callStep    = "step"   // of the clock
	callTask    = "task"   // of the client, which is a Doer
)

// order is a line to the process.
type order struct {
	ID       uint64        `json:"id"`
	Call     string        `json:"call"`
	Spec     *Spec         `json:"spec,omitempty"`
	Resource string        `json:"resource,omitempty"`
	Hold     uint64        `json:"hold,omitempty"` // of a call of a hold; or under which an acquire re-enters
	Err      *remoteError  `json:"err,omitempty"`
	By       time.Duration `json:"by,omitempty"`

	Task string          `json:"task,omitempty"`
	Args json.RawMessage `json:"args,omitempty"` // of the task
}

// report is a line from the process: the answer to an order, a point that waits
// for an answer, a loss, or a renewal.
type report struct {
	ID          uint64           `json:"id"`
	Point       string           `json:"point,omitempty"`
	Lost        bool             `json:"lost,omitempty"` // ID is that of the hold
	Renewed     *subject.Renewal `json:"renewed,omitempty"`
	Err         *remoteError     `json:"err,omitempty"`
	Token       uint64           `json:"token,omitempty"`
	Until       time.Time        `json:"until,omitzero"`
	ReportsLoss bool             `json:"reports_loss,omitempty"` // the hold has a Lost channel
	Result      json.RawMessage  `json:"result,omitempty"`       // of a task
}

// remoteError carries an error of a subject over the line.
type remoteError struct {
	Text  string   `json:"text"`
	Kinds []string `json:"kinds,omitempty"`
}

func kinds() map[string]error {
	return map[string]error{
		"busy": subject.ErrBusy, "not held": subject.ErrNotHeld, "no renewal": subject.ErrNoRenewal, "dead": subject.ErrDead,
	}
}

func send(err error) *remoteError {
	if err == nil {
		return nil
	}
	r := &remoteError{Text: err.Error()}
	for kind, known := range kinds() {
		if errors.Is(err, known) {
			r.Kinds = append(r.Kinds, kind)
		}
	}
	return r
}

func (r *remoteError) receive() error {
	if r == nil {
		return nil
	}
	errs := []error{errors.New(r.Text)}
	for _, kind := range r.Kinds {
		errs = append(errs, kinds()[kind])
	}
	return fmt.Errorf("process: %w", errors.Join(errs...))
}
