package web

import (
	"fmt"
	"strconv"
	"time"

	"github.com/holdfast-go/holdfast/internal/describe"
)

// formatAge writes how long something has lasted, in its two largest units.
func formatAge(d time.Duration) string {
	d = max(0, d)
	day := 24 * time.Hour
	switch {
	case d >= day:
		return fmt.Sprintf("%dd %02dh", d/day, d%day/time.Hour)
	case d >= time.Hour:
		return fmt.Sprintf("%dh %02dm", d/time.Hour, d%time.Hour/time.Minute)
	case d >= time.Minute:
		return fmt.Sprintf("%dm %02ds", d/time.Minute, d%time.Minute/time.Second)
	}
	return fmt.Sprintf("%ds", d/time.Second)
}

// formatLeft writes a rest of time, with tenths below ten seconds.
func formatLeft(d time.Duration) string {
	if d < 10*time.Second {
		return fmt.Sprintf("%.1fs", max(0, d.Seconds()))
	}
	return formatAge(d)
}

// formatTrip writes a round trip.
func formatTrip(d time.Duration) string {
	switch {
	case d < 10*time.Millisecond:
		return fmt.Sprintf("%.2f ms", float64(d.Microseconds())/1000)
	case d < time.Second:
		return fmt.Sprintf("%d ms", d.Milliseconds())
	}
	return fmt.Sprintf("%.1f s", d.Seconds())
}

// formatCount writes a number with its thousands apart.
func formatCount(n int) string {
	text := strconv.Itoa(n)
	for i := len(text) - 3; i > 0; i -= 3 {
		text = text[:i] + "," + text[i:]
	}
	return text
}

// processText describes the process of a party.
func processText(name, host string, pid int) string {
	text := describe.Text(name)
	if text == "" {
		text = "(no name)"
	}
	if pid != 0 {
		text += " · pid " + strconv.Itoa(pid)
	}
	if host != "" {
		text += " on " + describe.Text(host)
	}
	return text
}
