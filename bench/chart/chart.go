// Package chart draws the figures of the benchmark as panels side by side, and writes
// them as PNG and SVG.
package chart

import (
	"errors"
	"fmt"
	"image/color"
	"io"
	"math"
	"os"

	"gonum.org/v1/plot"
	"gonum.org/v1/plot/vg"
	"gonum.org/v1/plot/vg/draw"
	"gonum.org/v1/plot/vg/vgimg"
	"gonum.org/v1/plot/vg/vgsvg"
)

// Role is the role of a contender, which selects its colour.
type Role int

// The roles.
const (
	Ours Role = iota
	Peer
	Floor
)

func (r Role) colour() color.Color {
	switch r {
	case Ours:
		return color.RGBA{R: 0xc0, G: 0x39, B: 0x2b, A: 0xff}
	case Peer:
		return color.RGBA{R: 0x2c, G: 0x5d, B: 0x8f, A: 0xff}
	}
	return color.RGBA{R: 0x7f, G: 0x8c, B: 0x8d, A: 0xff}
}

// Panel is one diagram of a chart.
type Panel interface {
	draw() (*plot.Plot, error)
}

// Write draws panels side by side, each of the given width and height in centimetres,
// into the files path.png and path.svg.
func Write(path, title string, width, height float64, panels ...Panel) error {
	plots := make([]*plot.Plot, len(panels))
	for i, p := range panels {
		var err error
		if plots[i], err = p.draw(); err != nil {
			return fmt.Errorf("%s: %w", title, err)
		}
	}
	w, h := vg.Length(width*float64(len(panels)))*vg.Centimeter, vg.Length(height)*vg.Centimeter
	png := vgimg.PngCanvas{Canvas: vgimg.New(w, h)}
	lay(draw.New(png), title, plots)
	svg := vgsvg.New(w, h)
	lay(draw.New(svg), title, plots)
	return errors.Join(write(path+".png", png), write(path+".svg", svg))
}

// lay puts the plots below the title.
func lay(c draw.Canvas, title string, plots []*plot.Plot) {
	head := plot.New().Title.TextStyle
	head.Font.Size = 12
	head.XAlign, head.YAlign = draw.XCenter, draw.YTop
	c.SetColor(color.White)
	c.Fill(c.Rectangle.Path())
	c.FillText(head, vg.Point{X: (c.Min.X + c.Max.X) / 2, Y: c.Max.Y - 4}, title)
	c.Max.Y -= 20
	tiles := draw.Tiles{Rows: 1, Cols: len(plots), PadX: 8, PadTop: 4, PadBottom: 6, PadLeft: 6, PadRight: 14}
	for i, one := range plot.Align([][]*plot.Plot{plots}, tiles, c)[0] {
		plots[i].Draw(one)
	}
}

func write(path string, from io.WriterTo) error {
	f, err := os.Create(path)
	if err != nil {
		return err
	}
	_, err = from.WriteTo(f)
	return errors.Join(err, f.Close())
}

// scaleOf reports whether values need a logarithmic axis, and returns its range.
func scaleOf(values []float64) (log bool, low, high float64) {
	low, high = math.Inf(1), 0
	for _, v := range values {
		high = max(high, v)
		if v > 0 {
			low = min(low, v)
		}
	}
	if high == 0 {
		return false, 0, 1
	}
	if high/low < 20 {
		return false, 0, high * 1.25
	}
	return true, math.Pow(10, math.Floor(math.Log10(low))), high * 3
}

// ticks returns powers of ten for a logarithmic axis, and the default ticks otherwise.
func ticks(log bool) plot.Ticker {
	if !log {
		return plot.DefaultTicks{}
	}
	return plot.TickerFunc(func(low, high float64) []plot.Tick {
		var all []plot.Tick
		for v := math.Pow(10, math.Floor(math.Log10(low))); v <= high; v *= 10 {
			all = append(all, plot.Tick{Value: v, Label: Number(v)})
		}
		return all
	})
}

// Number formats a value with three digits, and thousands as k.
func Number(v float64) string {
	switch {
	case v == 0:
		return "0"
	case math.Abs(v) >= 1e6:
		return fmt.Sprintf("%.3gM", v/1e6)
	case math.Abs(v) >= 1e4:
		return fmt.Sprintf("%.3gk", v/1e3)
	case math.Abs(v) >= 100:
		return fmt.Sprintf("%.0f", v)
	}
	return fmt.Sprintf("%.3g", v)
}
