//! Attention as each kernel allocates: rotation of queries and keys, grouped heads, masks as biases, what is saved and
//! what backward needs besides.

use crate::architecture::Family;
use crate::step::linear::one;
use crate::step::{Kernel, Plan};
use crate::tape::{Dtype, Part, Raw, Tape, Tensor};

impl Tape {
    /// Rotary position embedding of queries or keys.
    pub(crate) fn rotate(&self, x: &Tensor, cos: &Raw, sin: &Raw) -> Tensor {
        let dtype = x.dtype().promoted(cos.dtype);
        let saved_cos = self.save(cos);
        let by_cos = self.new_raw(x.numel(), dtype);
        let negated = self.new_raw(x.numel() / 2, x.dtype());
        let turned = self.new_raw(x.numel(), x.dtype());
        drop(negated);
        let saved_sin = self.save(sin);
        let by_sin = self.new_raw(x.numel(), dtype);
        drop(turned);
        let out = self.new_raw(x.numel(), dtype);
        drop((by_cos, by_sin));
        let node = self.node(&[x], move |tape, grads| {
            let grad = one(grads);
            let sin = tape.unpack(saved_sin);
            let turned = tape.new_raw(grad.numel, grad.dtype);
            drop(sin);
            let negated = tape.new_raw(grad.numel / 2, grad.dtype);
            let sum = tape.new_raw(grad.numel, grad.dtype);
            drop(negated);
            let second = tape.new_raw(grad.numel, grad.dtype);
            drop((turned, second));
            let cos = tape.unpack(saved_cos);
            let straight = tape.new_raw(grad.numel, grad.dtype);
            drop((cos, straight));
            vec![Some(Raw {
                heads_first: true,
                ..sum
            })]
        });
        self.output(
            Raw {
                heads_first: false,
                ..out
            },
            node.as_ref(),
            0,
            x.grad,
        )
    }

    /// Appended to an empty cache: a copy, which the model's outputs hold.
    pub(crate) fn cached(&self, x: Tensor) -> Tensor {
        let raw = self.new_raw(x.numel(), x.dtype());
        self.cache.borrow_mut().push(raw.clone());
        Tensor { raw, ..x }
    }

    /// Scaled dot product attention of `[batch, heads, tokens, head_dim]`; `mask` is a boolean one.
    pub(crate) fn attention(
        &self,
        plan: &Plan,
        q: &Tensor,
        k: &Tensor,
        v: &Tensor,
        mask: Option<&Raw>,
    ) -> Tensor {
        self.part(Part::Attention);
        let kernel = if mask.is_some() {
            plan.masked_kernel
        } else {
            plan.plain_kernel
        };
        if kernel == Kernel::Eager {
            return self.eager(plan, q, k, v, mask);
        }
        let half = self.half.get();
        let cast = |x: &Tensor| {
            if self.autocast.get() {
                self.to(x, half)
            } else {
                x.clone()
            }
        };
        match kernel {
            Kernel::Flash => {
                let (q, k, v) = (cast(q), cast(k), cast(v));
                self.flash(plan, &q, &k, &v)
            }
            _ => {
                let (k, v) = (self.repeat(plan, k, mask), self.repeat(plan, v, mask));
                let (q, k, v) = (cast(q), cast(&k), cast(&v));
                self.masked(plan, kernel, &q, &k, &v, mask)
            }
        }
    }

    fn flash(&self, plan: &Plan, q: &Tensor, k: &Tensor, v: &Tensor) -> Tensor {
        let (b, h, t, d) = (plan.batch, plan.arch.heads, plan.seq, plan.arch.head_dim);
        let out = self.new_raw(q.numel(), q.dtype());
        let sums = self.new_raw(b * h * t, Dtype::Fp32);
        let saved = [&q.raw, &k.raw, &v.raw, &out, &sums].map(|raw| self.save(raw));
        drop(sums);
        let (grouped, dtype) = (k.numel() != q.numel(), q.dtype());
        let (q_numel, kv_numel) = (q.numel(), k.numel());
        let node = self.node(&[q, k, v], move |tape, _| {
            let saved = saved.map(|one| tape.unpack(one));
            // dQ is summed in fp32, rows rounded to 128 and heads to 32 (256 above 192).
            let rows = t.div_ceil(128) * 128;
            let wide = if d <= 192 { d.div_ceil(32) * 32 } else { 256 };
            let sum = tape.new_raw(b * rows * h * wide, Dtype::Fp32);
            let dot = tape.new_raw(b * h * rows, Dtype::Fp32);
            let made = [q_numel, kv_numel, kv_numel].map(|numel| Some(tape.new_raw(numel, dtype)));
            let per_query_head =
                grouped.then(|| [tape.new_raw(q_numel, dtype), tape.new_raw(q_numel, dtype)]);
            drop((saved, per_query_head, dot, sum));
            made.into()
        });
        self.output(out, node.as_ref(), 0, q.grad)
    }

    /// Keys or values repeated for each query head of their group, where the kernel cannot share them.
    fn repeat(&self, plan: &Plan, x: &Tensor, mask: Option<&Raw>) -> Tensor {
        let groups = plan.arch.heads / plan.arch.kv_heads;
        if groups == 1 || (mask.is_none() && plan.plain_kernel == Kernel::Flash) {
            return x.clone();
        }
        let raw = self.new_raw(x.numel() * groups, x.dtype());
        let numel = x.numel();
        let node = self.node(&[x], move |tape, grads| {
            let grad = one(grads);
            let copied = tape.new_raw(grad.numel, grad.dtype);
            let made = tape.new_raw(numel, grad.dtype);
            drop(copied);
            vec![Some(Raw {
                heads_first: true,
                ..made
            })]
        });
        self.output(raw, node.as_ref(), 0, x.grad)
    }

    fn masked(
        &self,
        plan: &Plan,
        kernel: Kernel,
        q: &Tensor,
        k: &Tensor,
        v: &Tensor,
        mask: Option<&Raw>,
    ) -> Tensor {
        let (b, h, t) = (plan.batch, plan.arch.heads, plan.seq);
        let dtype = q.dtype();
        let bias = mask.map(|_| self.bias(plan, kernel, dtype));
        let out = self.new_raw(q.numel(), dtype);
        let rows = if kernel == Kernel::Efficient {
            t.div_ceil(32) * 32
        } else {
            t
        };
        let sums = self.new_raw(b * h * rows, Dtype::Fp32);
        let saved = [
            Some(&q.raw),
            Some(&k.raw),
            Some(&v.raw),
            bias.as_ref(),
            Some(&out),
            Some(&sums),
        ];
        let saved = saved.map(|raw| raw.map(|raw| self.save(raw)));
        drop((sums, bias));
        let numel = q.numel();
        let node = self.node(&[q, k, v], move |tape, _| {
            let saved = saved.map(|one| one.map(|one| tape.unpack(one)));
            let made = [(); 3].map(|()| Some(tape.new_raw(numel, dtype)));
            // dQ summed in fp32 (the whole difference between the vendors' peaks in the seeds), and a row of sums.
            let wide = if kernel == Kernel::Triton { 0 } else { numel };
            let sum = tape.new_raw(wide + b * h * rows, Dtype::Fp32);
            drop((sum, saved));
            made.into()
        });
        self.output(out, node.as_ref(), 0, q.grad)
    }

    /// A boolean mask as a bias in the scores' type; the memory-efficient kernel wants its rows aligned to 8.
    fn bias(&self, plan: &Plan, kernel: Kernel, dtype: Dtype) -> Raw {
        let before = self.log.part(Part::Masks);
        let t = plan.seq;
        let plain = self.new_raw(plan.batch * t * t, dtype);
        let aligned = t.div_ceil(8) * 8;
        let bias = if kernel == Kernel::Efficient && aligned != t {
            self.new_raw(plan.batch * t * aligned, dtype)
        } else {
            plain.clone()
        };
        drop(plain);
        self.log.part(before);
        bias
    }

    /// Scores, softmax in fp32, probabilities in the values' type.
    fn eager(&self, plan: &Plan, q: &Tensor, k: &Tensor, v: &Tensor, mask: Option<&Raw>) -> Tensor {
        let scores_numel = plan.batch * plan.arch.heads * plan.seq * plan.seq;
        let groups = plan.arch.heads / plan.arch.kv_heads;
        let repeated = |x: &Tensor| {
            if groups > 1 {
                self.repeat(plan, x, Some(&Raw::nothing(0, Dtype::U8)))
            } else {
                x.clone()
            }
        };
        let (k, v) = (repeated(k), repeated(v));
        let scores = self.product(q, &k, scores_numel);
        let mut scaled = self.scale(&scores);
        drop(scores);
        if plan.arch.family == Family::Gemma2 {
            scaled = self.capped(&scaled);
        }
        let mut masked = scaled.clone();
        if mask.is_some() {
            masked = self.add(
                &scaled,
                &Tensor::constant(Raw::nothing(scores_numel, scaled.dtype())),
            );
        }
        drop(scaled);
        if self.autocast.get() {
            // Autocast has softmax in fp32, by a copy of its own.
            masked = self.to(&masked, Dtype::Fp32);
        }
        let wide = self.softmax(&masked);
        drop(masked);
        let value_type = if self.autocast.get() {
            self.half.get()
        } else {
            q.dtype()
        };
        let probabilities = self.to(&wide, value_type);
        drop(wide);
        let out = self.product(&probabilities, &v, q.numel());
        drop(probabilities);
        // [batch, heads, tokens, dim] to tokens first: a copy.
        self.copy(&out)
    }

    /// Product of two activations, both needed again.
    fn product(&self, a: &Tensor, b: &Tensor, out: u64) -> Tensor {
        let half = self.half.get();
        let (a, b) = if self.autocast.get() {
            (self.to(a, half), self.to(b, half))
        } else {
            (a.clone(), b.clone())
        };
        let saved = [self.save(&a.raw), self.save(&b.raw)];
        let raw = self.new_raw(out, a.dtype());
        self.blas();
        let (a_numel, b_numel, dtype) = (a.numel(), b.numel(), a.dtype());
        let node = self.node(&[&a, &b], move |tape, _| {
            let saved = saved.map(|one| tape.unpack(one));
            let made = [a_numel, b_numel].map(|numel| Some(tape.new_raw(numel, dtype)));
            drop(saved);
            made.into()
        });
        self.output(raw, node.as_ref(), 0, a.grad || b.grad)
    }

    /// In fp32. The device's backward makes the product of gradient and result first, as a block of its own, and gives
    /// back the type that came in.
    fn softmax(&self, x: &Tensor) -> Tensor {
        let raw = self.new_raw(x.numel(), Dtype::Fp32);
        let saved = self.save(&raw);
        let back_to = if x.dtype() == Dtype::Fp16 {
            Dtype::Fp16
        } else {
            Dtype::Fp32
        };
        let node = self.node(&[x], move |tape, grads| {
            let grad = one(grads);
            let result = tape.unpack(saved);
            let product = tape.new_raw(grad.numel, Dtype::Fp32);
            let made = tape.new_raw(grad.numel, back_to);
            drop((result, product));
            vec![Some(made)]
        });
        self.output(raw, node.as_ref(), 0, x.grad)
    }

    /// Gemma 2 bends large values: divided, tanh, multiplied; the tangent is needed again.
    pub(crate) fn capped(&self, x: &Tensor) -> Tensor {
        let divided = self.scale(x);
        let raw = self.new_raw(divided.numel(), divided.dtype());
        let saved = self.save(&raw);
        let node = self.node(&[&divided], move |tape, grads| {
            let grad = one(grads);
            let result = tape.unpack(saved);
            let made = tape.new_raw(grad.numel, grad.dtype);
            drop(result);
            vec![Some(made)]
        });
        let bent = self.output(raw, node.as_ref(), 0, divided.grad);
        drop(divided);
        self.scale(&bent)
    }
}
