package diagnosis

import "testing"

func TestOlder(t *testing.T) {
	for _, c := range []struct {
		version, than string
		want          bool
	}{
		{"6.0.16", "6.2", true}, {"6.2.14", "6.2", false}, {"7.0-rc1", "7.0", false}, {"10.1.48-MariaDB", "10.2", true},
		{"10.11.6-MariaDB", "10.2", false}, {"5.7", "8.0", true}, {"v3.3.27", "3.4", true}, {"4", "4.1", true}, {"", "0.1", true}, {"3.24", "3.24", false},
	} {
		if got := Older(c.version, c.than); got != c.want {
			t.Errorf("Older(%q, %q) = %v", c.version, c.than, got)
		}
	}
}
