#include "textflag.h"

DATA one<>+0(SB)/4, $0x3f800000
GLOBL one<>(SB), RODATA|NOPTR, $4

// func screenAVX2(rows int, c *float32, ldc int, rowLimit, colLimit *float32, out *uint64) int
//
// Y0 holds ones, Y1 and Y2 the limits of the sixteen columns. A row whose four comparisons are all false costs one
// branch, which is the common case by far.
TEXT ·screenAVX2(SB), NOSPLIT, $0-56
	MOVQ rows+0(FP), CX
	MOVQ c+8(FP), SI
	MOVQ ldc+16(FP), R8
	MOVQ rowLimit+24(FP), DX
	MOVQ colLimit+32(FP), DI
	MOVQ out+40(FP), R9
	MOVQ R9, R10
	SHLQ $2, R8
	XORQ BX, BX
	VBROADCASTSS one<>(SB), Y0
	VMOVUPS (DI), Y1
	VMOVUPS 32(DI), Y2

row:
	VBROADCASTSS (DX)(BX*4), Y3
	VSUBPS (SI), Y0, Y4
	VSUBPS 32(SI), Y0, Y5
	VCMPPS $2, Y3, Y4, Y6
	VCMPPS $2, Y3, Y5, Y7
	VCMPPS $2, Y1, Y4, Y8
	VCMPPS $2, Y2, Y5, Y9
	VORPS  Y6, Y7, Y10
	VORPS  Y8, Y9, Y11
	VORPS  Y10, Y11, Y10
	VPTEST Y10, Y10
	JNZ    found

next:
	ADDQ R8, SI
	INCQ BX
	CMPQ BX, CX
	JLT  row

	SUBQ R9, R10
	SHRQ $3, R10
	MOVQ R10, ret+48(FP)
	VZEROUPPER
	RET

found:
	VMOVMSKPS Y6, AX
	VMOVMSKPS Y7, R11
	SHLQ $8, R11
	ORQ  R11, AX
	VMOVMSKPS Y8, R11
	SHLQ $16, R11
	ORQ  R11, AX
	VMOVMSKPS Y9, R11
	SHLQ $24, R11
	ORQ  R11, AX
	MOVQ BX, R11
	SHLQ $32, R11
	ORQ  R11, AX
	MOVQ AX, (R10)
	ADDQ $8, R10
	JMP  next

// func axpyAVX2(n int, alpha float64, x, y *float64)
TEXT ·axpyAVX2(SB), NOSPLIT, $0-32
	MOVQ n+0(FP), CX
	VBROADCASTSD alpha+8(FP), Y0
	MOVQ x+16(FP), SI
	MOVQ y+24(FP), DI

quad:
	VMOVUPD (SI), Y1
	VMOVUPD (DI), Y2
	VFMADD231PD Y0, Y1, Y2
	VMOVUPD Y2, (DI)
	ADDQ $32, SI
	ADDQ $32, DI
	SUBQ $4, CX
	JG   quad
	VZEROUPPER
	RET
