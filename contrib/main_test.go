package contrib

import (
	"net/http"
	"os"
	"testing"

	"github.com/holdfast-go/holdfast/internal/leaktest"
)

func TestMain(m *testing.M) {
	if len(os.Args) == 3 && os.Args[1] == holderProcess {
		hold(os.Args[2])
	}
	leaktest.Main(m, http.DefaultClient.CloseIdleConnections)
}
