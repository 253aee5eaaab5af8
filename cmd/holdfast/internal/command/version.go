package command

import (
	"fmt"
	"runtime"
	"runtime/debug"

	"github.com/alecthomas/kong"
)

// versionCmd is `holdfast version`.
type versionCmd struct {
	JSON bool `help:"As a JSON object."`
}

// Help is the long text of --help.
func (*versionCmd) Help() string {
	return `Examples:
	holdfast version
	holdfast version --json | jq -r .version`
}

// build is the build information of the binary.
type build struct {
	Version  string `json:"version"` // of the module; (devel) when built from a checkout
	Revision string `json:"revision,omitempty"`
	Modified bool   `json:"modified,omitempty"`
	Go       string `json:"go"`
	OS       string `json:"os"`
	Arch     string `json:"arch"`
}

func thisBuild() build {
	b := build{Version: "(unknown)", Go: runtime.Version(), OS: runtime.GOOS, Arch: runtime.GOARCH}
	info, ok := debug.ReadBuildInfo()
	if !ok {
		return b
	}
	if info.Main.Version != "" {
		b.Version = info.Main.Version
	}
	for _, s := range info.Settings {
		switch s.Key {
		case "vcs.revision":
			b.Revision = s.Value
		case "vcs.modified":
			b.Modified = s.Value == "true"
		}
	}
	return b
}

// String is the line that `holdfast version` prints.
func (b build) String() string {
	from := ""
	if b.Revision != "" {
		from = " (" + b.Revision[:min(12, len(b.Revision))]
		if b.Modified {
			from += ", modified"
		}
		from += ")"
	}
	return fmt.Sprintf("holdfast %s%s, %s, %s/%s", b.Version, from, b.Go, b.OS, b.Arch)
}

// Run prints the version.
func (c *versionCmd) Run(e *env) error {
	if c.JSON {
		return writeJSON(e.stdout, thisBuild())
	}
	_, err := fmt.Fprintln(e.stdout, thisBuild())
	return err
}

// versionFlag is --version, the same as the verb.
type versionFlag bool

// BeforeReset implements kong's hook: it runs before required arguments are checked.
func (versionFlag) BeforeReset(app *kong.Kong) error {
	_, err := fmt.Fprintln(app.Stdout, thisBuild())
	app.Exit(0)
	return err
}
