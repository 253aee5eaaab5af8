package main

import (
	"fmt"
	"runtime"
	"runtime/debug"
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

// build is what the binary knows of itself.
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

// Run prints the version.
func (c *versionCmd) Run(e *env) error {
	b := thisBuild()
	if c.JSON {
		return writeJSON(e.stdout, b)
	}
	_, err := fmt.Fprintf(e.stdout, "holdfast %s, %s, %s/%s\n", b.Version, b.Go, b.OS, b.Arch)
	return err
}
