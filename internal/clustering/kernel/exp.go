package kernel

import "math"

// Exp returns e^x with an error below one unit in the last place, the same bits on every machine: math.Exp takes another
// path on processors with fused multiply-add. The method is FreeBSD's e_exp.c: x = k·ln2 + r, |r| ≤ ln2/2, and a rational
// approximation of e^r by the first Remez polynomial in r².
func Exp(x float64) float64 {
	const (
		ln2Hi  = 6.93147180369123816490e-01
		ln2Lo  = 1.90821492927058770002e-10
		log2e  = 1.44269504088896338700e+00
		over   = 7.09782712893383973096e+02
		under  = -7.45133219101941108420e+02
		nearly = 1.0 / (1 << 28)
		p1     = 1.66666666666666657415e-01
		p2     = -2.77777777770155933842e-03
		p3     = 6.61375632143793436117e-05
		p4     = -1.65339022054652515390e-06
		p5     = 4.13813679705723846039e-08
	)
	switch {
	case math.IsNaN(x) || x > over:
		return x * math.Inf(1)
	case x < under:
		return 0
	case -nearly < x && x < nearly:
		return 1 + x
	}
	var k int
	if x < 0 {
		k = int(float64(log2e*x) - 0.5)
	} else {
		k = int(float64(log2e*x) + 0.5)
	}
	hi := x - float64(float64(k)*ln2Hi)
	lo := float64(float64(k) * ln2Lo)
	r := hi - lo
	t := float64(r * r)
	c := p4 + float64(t*p5)
	c = p3 + float64(t*c)
	c = p2 + float64(t*c)
	c = p1 + float64(t*c)
	c = r - float64(t*c)
	y := 1 - ((lo - float64(r*c)/(2-c)) - hi)
	if -1000 < k && k < 1000 {
		// y is in [0.7, 1.5], so its exponent has room.
		return math.Float64frombits(math.Float64bits(y) + uint64(k)<<52)
	}
	return math.Ldexp(y, k)
}
