package command

import (
	"os"
	"slices"
	"strings"
	"syscall"

	"github.com/alecthomas/kong"

	"github.com/holdfast-go/holdfast/cmd/holdfast/internal/store"
)

// handoverVar is set for store.Program by the program that replaces itself by it. It has that
// program's version.
const handoverVar = "HOLDFAST_HANDOVER"

// takeOver checks that the program that has replaced itself by this one has the same version.
func (e *env) takeOver() error {
	version, ok := os.LookupEnv(handoverVar)
	if !ok {
		return nil
	}
	e.handedOver = true
	os.Unsetenv(handoverVar)
	if own := thisBuild().Version; version != own {
		return fail(exitConfig, "holdfast is %s, and %s is %s: install the same version of both, with go install %s@%s",
			version, store.Program, own, storesPackage, installed(version))
	}
	return nil
}

// handOver replaces this process by store.Program, with the same arguments, if one of the
// URLs is of a store whose driver this program does not link.
func (e *env) handOver(urls string) error {
	driver := e.opener.Unlinked(urls)
	if driver == nil {
		return nil
	}
	path, err := findProgram(store.Program)
	version := thisBuild().Version
	if err != nil || e.handedOver {
		return fail(exitConfig, "for %s the program %s is needed, which is neither beside this program nor in PATH; "+
			"install it: go install %s@%s", driver.Name, store.Program, storesPackage, installed(version))
	}
	if err := e.setStoreFile(); err != nil {
		return fail(exitFailed, "hand on --store-file: %v", err)
	}
	e.ahead.drop() // the other program starts its own
	e.ahead = nil
	// Its name in messages and in the process list stays that of this program.
	return fail(exitNotExec, "run %s: %v", path, syscall.Exec(path, e.args, append(os.Environ(), handoverVar+"="+version)))
}

const storesPackage = "github.com/holdfast-go/holdfast/cmd/holdfast/" + store.Program

// installed returns the version that go install takes for the one of a build.
func installed(version string) string {
	if strings.HasPrefix(version, "v") {
		return version
	}
	return "latest"
}

// storeOf returns the URLs that a verb opens, or "".
func (e *env) storeOf(ctx *kong.Context) string {
	verb := ctx.Selected().Name
	if slices.Contains([]string{"version", "completion", "man", "torture"}, verb) || verb == "demo" && !e.urlGiven {
		return ""
	}
	if doctor, ok := ctx.Selected().Target.Addr().Interface().(*doctorCmd); ok && len(doctor.URL) > 0 {
		return strings.Join(stringsOf(doctor.URL), ",")
	}
	return e.url
}
