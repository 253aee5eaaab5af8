package holdfast

import (
	_ "database/sql" // want
	_ "net/http"     // want
	"os"
	_ "os/exec" // want
)

func who() (string, error) {
	_ = os.Getpid()
	_ = os.Getenv("HOLDFAST_REDIS") // want
	return os.Hostname()
}
