// Command holdfast-stores is the command holdfast with all stores: PostgreSQL, MySQL,
// SQLite, etcd and ZooKeeper beside Redis. holdfast replaces itself by it when it needs
// one of these, which are not linked into holdfast: their drivers would make each start of it
// three times as long.
package main

import (
	"os"

	"github.com/holdfast-go/holdfast/cmd/holdfast/internal/command"
	"github.com/holdfast-go/holdfast/cmd/holdfast/internal/stores"
)

func main() { os.Exit(command.Main(os.Args, stores.Drivers()...)) }
