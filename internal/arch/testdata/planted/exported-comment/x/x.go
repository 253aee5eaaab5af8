package x

type Mute struct{} // want

// Said has a comment.
type Said struct{}

func (Said) Work()          {} // want
func (Said) String() string { return "" }
func (hidden) Work()        {}

type hidden struct{}

// The group.
const (
	A = 1
	B = 2
)

const C = 3 // the comment may stand behind

var (
	// E is said.
	E = 4
)

func Run() {} // want
