package contrib

import (
	"net/http"
	"testing"

	"github.com/holdfast-go/holdfast/internal/leaktest"
)

func TestMain(m *testing.M) { leaktest.Main(m, http.DefaultClient.CloseIdleConnections) }
