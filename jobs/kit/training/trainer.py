"""The trainer of transformers around the step that is rehearsed: loss, backward and optimizer are those of `step`.

It leaves autocast, checkpointing and offloading to the step, so that a training takes the memory that was planned. It
stops at a loss that is no number, and before the host's memory runs out; both with a checkpoint or a sentence.
"""
import torch
from transformers import PrinterCallback, Trainer, TrainerCallback, TrainingArguments

from failures import DIVERGED, HOST_MEMORY, Failure
from measure import host
from step import fixes, one_step
from step.loss import loss_of
from step.machine import optimizer_kind


class StepTrainer(Trainer):
    """`machine` gets the marks of every step, as in a rehearsal."""

    def __init__(self, recipe, plan, machine, batches, keep=None, **given):
        self.recipe, self.plan, self.machine, self.batches, self.keep = recipe, plan, machine, batches, keep
        super().__init__(data_collator=batches, **given)
        self.remove_callback(PrinterCallback)   # the reports say it, and the log stays readable
        self.hooks = fixes.offload(recipe, machine, self.model)

    def _move_model_to_device(self, model, device):
        """It is there already."""

    def training_step(self, model, inputs, num_items_in_batch=None):
        model.train()
        batch = self.batches.inputs(inputs, self.machine.device)
        loss = one_step.forward_backward(model, batch, self.recipe, self.machine, self.hooks,
                                         1.0 / self.current_gradient_accumulation_steps)
        if not torch.isfinite(loss):
            raise Failure("diverged", f"the loss is {float(loss)} at step {self.state.global_step + 1}: a smaller "
                          "learning_rate, a longer warmup, or fp32", DIVERGED, step=self.state.global_step + 1)
        return loss / self.current_gradient_accumulation_steps

    def prediction_step(self, model, inputs, prediction_loss_only, ignore_keys=None):
        batch = self.batches.inputs(inputs, self.machine.device)
        with torch.no_grad(), one_step.autocast(self.recipe, self.machine):
            loss, _ = loss_of(model, batch, self.recipe)
        return loss.detach(), None, None

    def create_optimizer(self, model=None):
        if self.optimizer is None:
            make, settings = optimizer_kind(self.recipe)
            if self.plan.lora_plus:
                from peft.optimizers import create_loraplus_optimizer
                self.optimizer = create_loraplus_optimizer(
                    self.model, make, loraplus_lr_ratio=self.plan.lora_plus,
                    loraplus_weight_decay=settings["weight_decay"], **settings)
            else:
                trained = [weight for weight in self.model.parameters() if weight.requires_grad]
                self.optimizer = make(trained, **settings)
        return self.optimizer

    def _save_checkpoint(self, model, trial):
        super()._save_checkpoint(model, trial)
        if self.keep is not None:
            self.keep.finished(self.state.global_step, self.state)


def arguments(recipe, plan, folder, seed, steps, on_cpu):
    """`steps`: optimizer steps in all."""
    warmup = round(plan.warmup * steps) if plan.warmup < 1 else int(plan.warmup)
    by = lambda every: {"strategy": "steps", "steps": every} if every else {"strategy": "epoch", "steps": None}
    evaluates, saves = by(plan.eval_every), by(plan.save_every)
    return TrainingArguments(
        output_dir=folder, max_steps=steps, per_device_train_batch_size=recipe.batch,
        per_device_eval_batch_size=recipe.batch, gradient_accumulation_steps=plan.grad_accumulation,
        learning_rate=recipe.learning_rate, weight_decay=recipe.weight_decay, lr_scheduler_type=plan.lr_schedule,
        warmup_steps=warmup, max_grad_norm=plan.max_grad_norm, neftune_noise_alpha=plan.neftune or None,
        logging_strategy="steps", logging_steps=plan.log_every, logging_nan_inf_filter=False,
        eval_strategy=evaluates["strategy"], eval_steps=evaluates["steps"],
        save_strategy=saves["strategy"], save_steps=saves["steps"] or 500,
        seed=seed, data_seed=seed, report_to=[], disable_tqdm=True, remove_unused_columns=False, label_names=["labels"],
        dataloader_pin_memory=False, use_cpu=on_cpu, include_num_input_tokens_seen="no", average_tokens_across_devices=False)


class Reports(TrainerCallback):
    """Tells what happens, step by step, and ends the training when it is asked to or must."""

    def __init__(self, report, machine, plan, stop):
        self.report, self.machine, self.plan, self.stop = report, machine, plan, stop
        self.stopped, self.history, self.held_out = None, [], {}

    def on_step_end(self, args, state, control, **_):
        free = host.free_mib()
        if free is not None and free < self.plan.host_reserve_mib:
            self.stopped = Failure("host_oom", f"{free:.0f} MiB of host memory left at step {state.global_step}, and "
                                   f"{self.plan.host_reserve_mib} are to stay free (host_reserve_mib)", HOST_MEMORY)
        elif self.stop.asked:
            self.stopped = "asked"
        if self.stopped:
            control.should_save = control.should_training_stop = True

    def on_log(self, args, state, control, logs=None, **_):
        logs = logs or {}
        known = {"loss": "loss", "learning_rate": "learning_rate", "grad_norm": "grad_norm", "eval_loss": "held_out_loss"}
        values = {known[name]: value for name, value in logs.items() if name in known}
        if "eval_loss" in logs:
            self.held_out[state.global_step] = logs["eval_loss"]
        if "loss" in logs:
            self.history.append(logs["loss"])
            values.update(self.machine.window())
        if values:
            self.report.metric(state.global_step, **values)
            self.report.progress(state.global_step / max(1, state.max_steps))

