package evaluate

import (
	"fmt"
	"html"
	"io"
	"math"
	"strings"
)

// Measures of the plot, in pixels.
const (
	plotWidth  = 900
	plotLabels = 260 // left of the axis
	plotRow    = 22
	plotMargin = 20
	plotHead   = 56
)

// WritePlot writes an SVG with a dot for each arm's mean of a metric and a line for its interval, a block for each
// group. Arms without the metric are left out. Baselines have a ring and a dashed line through their group.
func (r *Report) WritePlot(w io.Writer, metric Metric) error {
	low, high := r.plotRange(metric)
	x := func(v float64) float64 {
		return plotLabels + (v-low)/(high-low)*(plotWidth-plotLabels-plotMargin)
	}
	var body strings.Builder
	y := float64(plotHead)
	for _, group := range r.groups() {
		y += plotRow / 2
		fmt.Fprintf(&body, `<text x="%d" y="%.0f" font-weight="bold">%s</text>`+"\n", plotMargin, y+5, html.EscapeString(group))
		top := y
		dashed := math.NaN()
		for i := range r.Arms {
			a := &r.Arms[i]
			e := a.All.estimate(metric)
			if a.Group != group || e == nil {
				continue
			}
			y += plotRow
			fill := "#1f5fa8"
			if a.Baseline {
				fill, dashed = "white", e.Mean
			}
			fmt.Fprintf(&body, `<text x="%d" y="%.0f" text-anchor="end">%s</text>`+"\n", plotLabels-12, y+4, html.EscapeString(a.Name))
			fmt.Fprintf(&body, `<line x1="%.1f" y1="%.0f" x2="%.1f" y2="%.0f" stroke="#1f5fa8" stroke-width="2"/>`+"\n", x(e.Low), y, x(e.High), y)
			fmt.Fprintf(&body, `<circle cx="%.1f" cy="%.0f" r="4.5" fill="%s" stroke="#1f5fa8" stroke-width="2"><title>%.4f (%.4f to %.4f)</title></circle>`+"\n",
				x(e.Mean), y, fill, e.Mean, e.Low, e.High)
		}
		if !math.IsNaN(dashed) {
			fmt.Fprintf(&body, `<line x1="%.1f" y1="%.0f" x2="%.1f" y2="%.0f" stroke="#888" stroke-dasharray="3 4"/>`+"\n", x(dashed), top+plotRow/2, x(dashed), y+plotRow/2)
		}
		y += plotRow
	}
	var out strings.Builder
	height := y + 40
	fmt.Fprintf(&out, `<svg xmlns="http://www.w3.org/2000/svg" width="%d" height="%.0f" viewBox="0 0 %d %.0f" font-family="sans-serif" font-size="13">`+"\n", plotWidth, height, plotWidth, height)
	fmt.Fprintf(&out, `<rect width="%d" height="%.0f" fill="white"/>`+"\n", plotWidth, height)
	fmt.Fprintf(&out, `<text x="%d" y="26" font-size="16" font-weight="bold">%s, mean and %g %% interval, %d questions</text>`+"\n",
		plotMargin, strings.ReplaceAll(string(metric), "_", " "), r.Config.Confidence*100, r.Questions)
	step := tickStep(high - low)
	for k := math.Ceil(low/step - 1e-9); k*step <= high+1e-9; k++ {
		fmt.Fprintf(&out, `<line x1="%.1f" y1="%d" x2="%.1f" y2="%.0f" stroke="#ddd"/>`+"\n", x(k*step), plotHead-8, x(k*step), y)
		fmt.Fprintf(&out, `<text x="%.1f" y="%.0f" text-anchor="middle">%.4g</text>`+"\n", x(k*step), y+18, k*step)
	}
	out.WriteString(body.String())
	out.WriteString("</svg>\n")
	_, err := io.WriteString(w, out.String())
	return err
}

// plotRange returns the range that holds all intervals, with some air.
func (r *Report) plotRange(metric Metric) (low, high float64) {
	low, high = math.Inf(1), math.Inf(-1)
	for i := range r.Arms {
		if e := r.Arms[i].All.estimate(metric); e != nil {
			low, high = min(low, e.Low), max(high, e.High)
		}
	}
	if low > high {
		return 0, 1
	}
	air := max(0.005, (high-low)*0.05)
	return low - air, high + air
}

// tickStep returns 1, 2 or 5 times a power of ten, so that a span has 4 to 10 steps.
func tickStep(span float64) float64 {
	power := math.Pow(10, math.Floor(math.Log10(span/4)))
	for _, f := range []float64{5, 2} {
		if span/(f*power) >= 4 {
			return f * power
		}
	}
	return power
}

func (s *Summary) estimate(m Metric) *Estimate {
	switch m {
	case Coverage:
		return s.Coverage
	case Answered:
		return s.Answered
	case Recall:
		return s.Recall
	case NDCG:
		return s.NDCG
	}
	panic("evaluate: unknown metric " + string(m))
}
