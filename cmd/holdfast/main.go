// Command holdfast locks from the shell: it runs a command under a lease of a
// resource on Redis, and shows and breaks leases. `holdfast --help` lists its
// verbs, `holdfast VERB --help` shows examples. Package internal/command is all
// of it.
package main

import (
	"os"

	"github.com/holdfast-go/holdfast/cmd/holdfast/internal/command"
)

func main() { os.Exit(command.Main(os.Args)) }
