#include "textflag.h"

// The layout's loops over points of 16 floats. They multiply and add separately, never fused, so that the Go loops in
// layout.go, which these must equal bit for bit, stay cheap.

DATA four<>+0(SB)/8, $0x4080000040800000
DATA four<>+8(SB)/8, $0x4080000040800000
DATA four<>+16(SB)/8, $0x4080000040800000
DATA four<>+24(SB)/8, $0x4080000040800000
GLOBL four<>(SB), RODATA|NOPTR, $32

DATA minusFour<>+0(SB)/8, $0xc0800000c0800000
DATA minusFour<>+8(SB)/8, $0xc0800000c0800000
DATA minusFour<>+16(SB)/8, $0xc0800000c0800000
DATA minusFour<>+24(SB)/8, $0xc0800000c0800000
GLOBL minusFour<>(SB), RODATA|NOPTR, $32

DATA half<>+0(SB)/8, $0x3f0000003f000000
DATA half<>+8(SB)/8, $0x3f0000003f000000
DATA half<>+16(SB)/8, $0x3f0000003f000000
DATA half<>+24(SB)/8, $0x3f0000003f000000
GLOBL half<>(SB), RODATA|NOPTR, $32

DATA decay<>+0(SB)/8, $0x3f6666663f666666
DATA decay<>+8(SB)/8, $0x3f6666663f666666
DATA decay<>+16(SB)/8, $0x3f6666663f666666
DATA decay<>+24(SB)/8, $0x3f6666663f666666
GLOBL decay<>(SB), RODATA|NOPTR, $32

DATA fresh<>+0(SB)/8, $0x3dcccccd3dcccccd
DATA fresh<>+8(SB)/8, $0x3dcccccd3dcccccd
DATA fresh<>+16(SB)/8, $0x3dcccccd3dcccccd
DATA fresh<>+24(SB)/8, $0x3dcccccd3dcccccd
GLOBL fresh<>(SB), RODATA|NOPTR, $32

DATA epsilon<>+0(SB)/8, $0x33d6bf9533d6bf95
DATA epsilon<>+8(SB)/8, $0x33d6bf9533d6bf95
DATA epsilon<>+16(SB)/8, $0x33d6bf9533d6bf95
DATA epsilon<>+24(SB)/8, $0x33d6bf9533d6bf95
GLOBL epsilon<>(SB), RODATA|NOPTR, $32

DATA exponentBias<>+0(SB)/8, $0x0000007f0000007f
DATA exponentBias<>+8(SB)/8, $0x0000007f0000007f
DATA exponentBias<>+16(SB)/8, $0x0000007f0000007f
DATA exponentBias<>+24(SB)/8, $0x0000007f0000007f
GLOBL exponentBias<>(SB), RODATA|NOPTR, $32

DATA mantissa<>+0(SB)/8, $0x007fffff007fffff
DATA mantissa<>+8(SB)/8, $0x007fffff007fffff
DATA mantissa<>+16(SB)/8, $0x007fffff007fffff
DATA mantissa<>+24(SB)/8, $0x007fffff007fffff
GLOBL mantissa<>(SB), RODATA|NOPTR, $32

DATA unit<>+0(SB)/8, $0x3f8000003f800000
DATA unit<>+8(SB)/8, $0x3f8000003f800000
DATA unit<>+16(SB)/8, $0x3f8000003f800000
DATA unit<>+24(SB)/8, $0x3f8000003f800000
GLOBL unit<>(SB), RODATA|NOPTR, $32

DATA log2c1<>+0(SB)/8, $0x3fb892543fb89254
DATA log2c1<>+8(SB)/8, $0x3fb892543fb89254
DATA log2c1<>+16(SB)/8, $0x3fb892543fb89254
DATA log2c1<>+24(SB)/8, $0x3fb892543fb89254
GLOBL log2c1<>(SB), RODATA|NOPTR, $32

DATA log2c2<>+0(SB)/8, $0xbf35ac76bf35ac76
DATA log2c2<>+8(SB)/8, $0xbf35ac76bf35ac76
DATA log2c2<>+16(SB)/8, $0xbf35ac76bf35ac76
DATA log2c2<>+24(SB)/8, $0xbf35ac76bf35ac76
GLOBL log2c2<>(SB), RODATA|NOPTR, $32

DATA log2c3<>+0(SB)/8, $0x3ed5cf193ed5cf19
DATA log2c3<>+8(SB)/8, $0x3ed5cf193ed5cf19
DATA log2c3<>+16(SB)/8, $0x3ed5cf193ed5cf19
DATA log2c3<>+24(SB)/8, $0x3ed5cf193ed5cf19
GLOBL log2c3<>(SB), RODATA|NOPTR, $32

DATA log2c4<>+0(SB)/8, $0xbe48faddbe48fadd
DATA log2c4<>+8(SB)/8, $0xbe48faddbe48fadd
DATA log2c4<>+16(SB)/8, $0xbe48faddbe48fadd
DATA log2c4<>+24(SB)/8, $0xbe48faddbe48fadd
GLOBL log2c4<>(SB), RODATA|NOPTR, $32

DATA log2c5<>+0(SB)/8, $0x3d3dfe803d3dfe80
DATA log2c5<>+8(SB)/8, $0x3d3dfe803d3dfe80
DATA log2c5<>+16(SB)/8, $0x3d3dfe803d3dfe80
DATA log2c5<>+24(SB)/8, $0x3d3dfe803d3dfe80
GLOBL log2c5<>(SB), RODATA|NOPTR, $32

DATA exp2c1<>+0(SB)/8, $0x3f3172183f317218
DATA exp2c1<>+8(SB)/8, $0x3f3172183f317218
DATA exp2c1<>+16(SB)/8, $0x3f3172183f317218
DATA exp2c1<>+24(SB)/8, $0x3f3172183f317218
GLOBL exp2c1<>(SB), RODATA|NOPTR, $32

DATA exp2c2<>+0(SB)/8, $0x3e75fcd93e75fcd9
DATA exp2c2<>+8(SB)/8, $0x3e75fcd93e75fcd9
DATA exp2c2<>+16(SB)/8, $0x3e75fcd93e75fcd9
DATA exp2c2<>+24(SB)/8, $0x3e75fcd93e75fcd9
GLOBL exp2c2<>(SB), RODATA|NOPTR, $32

DATA exp2c3<>+0(SB)/8, $0x3d6357333d635733
DATA exp2c3<>+8(SB)/8, $0x3d6357333d635733
DATA exp2c3<>+16(SB)/8, $0x3d6357333d635733
DATA exp2c3<>+24(SB)/8, $0x3d6357333d635733
GLOBL exp2c3<>(SB), RODATA|NOPTR, $32

DATA exp2c4<>+0(SB)/8, $0x3c1e76ce3c1e76ce
DATA exp2c4<>+8(SB)/8, $0x3c1e76ce3c1e76ce
DATA exp2c4<>+16(SB)/8, $0x3c1e76ce3c1e76ce
DATA exp2c4<>+24(SB)/8, $0x3c1e76ce3c1e76ce
GLOBL exp2c4<>(SB), RODATA|NOPTR, $32

DATA exp2c5<>+0(SB)/8, $0x3aafbb6f3aafbb6f
DATA exp2c5<>+8(SB)/8, $0x3aafbb6f3aafbb6f
DATA exp2c5<>+16(SB)/8, $0x3aafbb6f3aafbb6f
DATA exp2c5<>+24(SB)/8, $0x3aafbb6f3aafbb6f
GLOBL exp2c5<>(SB), RODATA|NOPTR, $32

DATA highest<>+0(SB)/8, $0x42fc000042fc0000
DATA highest<>+8(SB)/8, $0x42fc000042fc0000
DATA highest<>+16(SB)/8, $0x42fc000042fc0000
DATA highest<>+24(SB)/8, $0x42fc000042fc0000
GLOBL highest<>(SB), RODATA|NOPTR, $32

DATA lowest<>+0(SB)/8, $0xc2fc0000c2fc0000
DATA lowest<>+8(SB)/8, $0xc2fc0000c2fc0000
DATA lowest<>+16(SB)/8, $0xc2fc0000c2fc0000
DATA lowest<>+24(SB)/8, $0xc2fc0000c2fc0000
GLOBL lowest<>(SB), RODATA|NOPTR, $32

DATA shifter<>+0(SB)/8, $0x4b4000004b400000
DATA shifter<>+8(SB)/8, $0x4b4000004b400000
DATA shifter<>+16(SB)/8, $0x4b4000004b400000
DATA shifter<>+24(SB)/8, $0x4b4000004b400000
GLOBL shifter<>(SB), RODATA|NOPTR, $32

// func distancesAVX2(n int, dst, y, points *float32, targets *int32)
//
// n is a multiple of eight. Y14 and Y15 hold y; Y0..Y7 the eight lanes of eight targets, which horizontal additions then
// bring together as ((0+1)+(2+3)) + ((4+5)+(6+7)).
TEXT ·distancesAVX2(SB), NOSPLIT, $0-40
	MOVQ n+0(FP), CX
	MOVQ dst+8(FP), DI
	MOVQ y+16(FP), SI
	MOVQ points+24(FP), DX
	MOVQ targets+32(FP), R8
	VMOVUPS (SI), Y14
	VMOVUPS 32(SI), Y15

eight:
	MOVLQSX 0(R8), R9
	SHLQ $6, R9
	VSUBPS (DX)(R9*1), Y14, Y0
	VSUBPS 32(DX)(R9*1), Y15, Y8
	VMULPS Y0, Y0, Y0
	VMULPS Y8, Y8, Y8
	VADDPS Y8, Y0, Y0
	MOVLQSX 4(R8), R9
	SHLQ $6, R9
	VSUBPS (DX)(R9*1), Y14, Y1
	VSUBPS 32(DX)(R9*1), Y15, Y8
	VMULPS Y1, Y1, Y1
	VMULPS Y8, Y8, Y8
	VADDPS Y8, Y1, Y1
	MOVLQSX 8(R8), R9
	SHLQ $6, R9
	VSUBPS (DX)(R9*1), Y14, Y2
	VSUBPS 32(DX)(R9*1), Y15, Y8
	VMULPS Y2, Y2, Y2
	VMULPS Y8, Y8, Y8
	VADDPS Y8, Y2, Y2
	MOVLQSX 12(R8), R9
	SHLQ $6, R9
	VSUBPS (DX)(R9*1), Y14, Y3
	VSUBPS 32(DX)(R9*1), Y15, Y8
	VMULPS Y3, Y3, Y3
	VMULPS Y8, Y8, Y8
	VADDPS Y8, Y3, Y3
	MOVLQSX 16(R8), R9
	SHLQ $6, R9
	VSUBPS (DX)(R9*1), Y14, Y4
	VSUBPS 32(DX)(R9*1), Y15, Y8
	VMULPS Y4, Y4, Y4
	VMULPS Y8, Y8, Y8
	VADDPS Y8, Y4, Y4
	MOVLQSX 20(R8), R9
	SHLQ $6, R9
	VSUBPS (DX)(R9*1), Y14, Y5
	VSUBPS 32(DX)(R9*1), Y15, Y8
	VMULPS Y5, Y5, Y5
	VMULPS Y8, Y8, Y8
	VADDPS Y8, Y5, Y5
	MOVLQSX 24(R8), R9
	SHLQ $6, R9
	VSUBPS (DX)(R9*1), Y14, Y6
	VSUBPS 32(DX)(R9*1), Y15, Y8
	VMULPS Y6, Y6, Y6
	VMULPS Y8, Y8, Y8
	VADDPS Y8, Y6, Y6
	MOVLQSX 28(R8), R9
	SHLQ $6, R9
	VSUBPS (DX)(R9*1), Y14, Y7
	VSUBPS 32(DX)(R9*1), Y15, Y8
	VMULPS Y7, Y7, Y7
	VMULPS Y8, Y8, Y8
	VADDPS Y8, Y7, Y7
	VHADDPS Y1, Y0, Y0
	VHADDPS Y3, Y2, Y2
	VHADDPS Y5, Y4, Y4
	VHADDPS Y7, Y6, Y6
	VHADDPS Y2, Y0, Y0
	VHADDPS Y6, Y4, Y4
	VPERM2F128 $0x20, Y4, Y0, Y1
	VPERM2F128 $0x31, Y4, Y0, Y2
	VADDPS Y2, Y1, Y1
	VMOVUPS Y1, (DI)
	ADDQ $32, DI
	ADDQ $32, R8
	SUBQ $8, CX
	JG   eight
	VZEROUPPER
	RET

// func attractAVX2(n int, x *float32, c *Curve)
//
// n is a multiple of eight; the offsets into c are those of a, b, pull, push, nearest and soften.
TEXT ·attractAVX2(SB), NOSPLIT, $0-24
	MOVQ n+0(FP), CX
	MOVQ x+8(FP), DI
	MOVQ c+16(FP), SI
	VBROADCASTSS 0(SI), Y13
	VBROADCASTSS 4(SI), Y14
	VBROADCASTSS 16(SI), Y15
	VBROADCASTSS 8(SI), Y12

pull:
	VMOVUPS (DI), Y0
	VMAXPS Y15, Y0, Y2
	VPSRLD $23, Y2, Y3
	VPSUBD exponentBias<>(SB), Y3, Y3
	VCVTDQ2PS Y3, Y3
	VPAND  mantissa<>(SB), Y2, Y4
	VPOR   unit<>(SB), Y4, Y4
	VSUBPS unit<>(SB), Y4, Y4
	VMULPS log2c5<>(SB), Y4, Y5
	VADDPS log2c4<>(SB), Y5, Y5
	VMULPS Y4, Y5, Y5
	VADDPS log2c3<>(SB), Y5, Y5
	VMULPS Y4, Y5, Y5
	VADDPS log2c2<>(SB), Y5, Y5
	VMULPS Y4, Y5, Y5
	VADDPS log2c1<>(SB), Y5, Y5
	VMULPS Y4, Y5, Y5
	VADDPS Y5, Y3, Y3
	VMULPS Y14, Y3, Y3
	VMINPS highest<>(SB), Y3, Y3
	VMAXPS lowest<>(SB), Y3, Y3
	VADDPS shifter<>(SB), Y3, Y4
	VSUBPS shifter<>(SB), Y4, Y5
	VSUBPS Y5, Y3, Y3
	VMULPS exp2c5<>(SB), Y3, Y5
	VADDPS exp2c4<>(SB), Y5, Y5
	VMULPS Y3, Y5, Y5
	VADDPS exp2c3<>(SB), Y5, Y5
	VMULPS Y3, Y5, Y5
	VADDPS exp2c2<>(SB), Y5, Y5
	VMULPS Y3, Y5, Y5
	VADDPS exp2c1<>(SB), Y5, Y5
	VMULPS Y3, Y5, Y5
	VADDPS unit<>(SB), Y5, Y5
	VPSLLD $23, Y4, Y4
	VPADDD Y4, Y5, Y1
	VMULPS Y13, Y1, Y3
	VADDPS unit<>(SB), Y3, Y3
	VMULPS Y3, Y2, Y3
	VMULPS Y12, Y1, Y1
	VDIVPS Y3, Y1, Y1
	VMOVUPS Y1, (DI)
	ADDQ $32, DI
	SUBQ $8, CX
	JG   pull
	VZEROUPPER
	RET

// func repelAVX2(n int, x *float32, c *Curve)
TEXT ·repelAVX2(SB), NOSPLIT, $0-24
	MOVQ n+0(FP), CX
	MOVQ x+8(FP), DI
	MOVQ c+16(FP), SI
	VBROADCASTSS 0(SI), Y13
	VBROADCASTSS 4(SI), Y14
	VBROADCASTSS 16(SI), Y15
	VBROADCASTSS 12(SI), Y12
	VBROADCASTSS 20(SI), Y11

push:
	VMOVUPS (DI), Y0
	VMAXPS Y15, Y0, Y2
	VPSRLD $23, Y2, Y3
	VPSUBD exponentBias<>(SB), Y3, Y3
	VCVTDQ2PS Y3, Y3
	VPAND  mantissa<>(SB), Y2, Y4
	VPOR   unit<>(SB), Y4, Y4
	VSUBPS unit<>(SB), Y4, Y4
	VMULPS log2c5<>(SB), Y4, Y5
	VADDPS log2c4<>(SB), Y5, Y5
	VMULPS Y4, Y5, Y5
	VADDPS log2c3<>(SB), Y5, Y5
	VMULPS Y4, Y5, Y5
	VADDPS log2c2<>(SB), Y5, Y5
	VMULPS Y4, Y5, Y5
	VADDPS log2c1<>(SB), Y5, Y5
	VMULPS Y4, Y5, Y5
	VADDPS Y5, Y3, Y3
	VMULPS Y14, Y3, Y3
	VMINPS highest<>(SB), Y3, Y3
	VMAXPS lowest<>(SB), Y3, Y3
	VADDPS shifter<>(SB), Y3, Y4
	VSUBPS shifter<>(SB), Y4, Y5
	VSUBPS Y5, Y3, Y3
	VMULPS exp2c5<>(SB), Y3, Y5
	VADDPS exp2c4<>(SB), Y5, Y5
	VMULPS Y3, Y5, Y5
	VADDPS exp2c3<>(SB), Y5, Y5
	VMULPS Y3, Y5, Y5
	VADDPS exp2c2<>(SB), Y5, Y5
	VMULPS Y3, Y5, Y5
	VADDPS exp2c1<>(SB), Y5, Y5
	VMULPS Y3, Y5, Y5
	VADDPS unit<>(SB), Y5, Y5
	VPSLLD $23, Y4, Y4
	VPADDD Y4, Y5, Y1
	VMULPS Y13, Y1, Y3
	VADDPS unit<>(SB), Y3, Y3
	VADDPS Y11, Y0, Y0
	VMULPS Y3, Y0, Y3
	VDIVPS Y3, Y12, Y1
	VMOVUPS Y1, (DI)
	ADDQ $32, DI
	SUBQ $8, CX
	JG   push
	VZEROUPPER
	RET

// func pullAVX2(n int, grad, y, points *float32, targets *int32, factor *float32)
TEXT ·pullAVX2(SB), NOSPLIT, $0-48
	MOVQ n+0(FP), CX
	MOVQ grad+8(FP), DI
	MOVQ y+16(FP), SI
	MOVQ points+24(FP), DX
	MOVQ targets+32(FP), R8
	MOVQ factor+40(FP), R10
	VMOVUPS (SI), Y14
	VMOVUPS 32(SI), Y15
	VMOVUPS (DI), Y0
	VMOVUPS 32(DI), Y1
	VMOVUPS four<>(SB), Y12
	VMOVUPS minusFour<>(SB), Y13

target:
	MOVLQSX (R8), R9
	SHLQ $6, R9
	VBROADCASTSS (R10), Y2
	VSUBPS (DX)(R9*1), Y14, Y3
	VSUBPS 32(DX)(R9*1), Y15, Y4
	VMULPS Y2, Y3, Y3
	VMULPS Y2, Y4, Y4
	VMINPS Y12, Y3, Y3
	VMINPS Y12, Y4, Y4
	VMAXPS Y13, Y3, Y3
	VMAXPS Y13, Y4, Y4
	VADDPS Y3, Y0, Y0
	VADDPS Y4, Y1, Y1
	ADDQ $4, R8
	ADDQ $4, R10
	DECQ CX
	JNZ  target
	VMOVUPS Y0, (DI)
	VMOVUPS Y1, 32(DI)
	VZEROUPPER
	RET

// func stepAVX2(n int, next, y, m, v, grad *float32, rate float32)
//
// n is a multiple of eight.
TEXT ·stepAVX2(SB), NOSPLIT, $0-52
	MOVQ n+0(FP), CX
	MOVQ next+8(FP), DI
	MOVQ y+16(FP), SI
	MOVQ m+24(FP), R8
	MOVQ v+32(FP), R9
	MOVQ grad+40(FP), R10
	VBROADCASTSS rate+48(FP), Y15
	XORQ BX, BX

adam:
	VMOVUPS (R10)(BX*4), Y0
	VMOVUPS (R8)(BX*4), Y1
	VMULPS  half<>(SB), Y1, Y1
	VMULPS  half<>(SB), Y0, Y2
	VADDPS  Y2, Y1, Y1
	VMOVUPS Y1, (R8)(BX*4)
	VMOVUPS (R9)(BX*4), Y3
	VMULPS  decay<>(SB), Y3, Y3
	VMULPS  Y0, Y0, Y4
	VMULPS  fresh<>(SB), Y4, Y4
	VADDPS  Y4, Y3, Y3
	VMOVUPS Y3, (R9)(BX*4)
	VSQRTPS Y3, Y3
	VADDPS  epsilon<>(SB), Y3, Y3
	VMULPS  Y15, Y1, Y1
	VDIVPS  Y3, Y1, Y1
	VADDPS  (SI)(BX*4), Y1, Y1
	VMOVUPS Y1, (DI)(BX*4)
	ADDQ $8, BX
	CMPQ BX, CX
	JLT  adam
	VZEROUPPER
	RET
